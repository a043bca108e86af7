"""Aggregate statistics of profiled events, as a text table or as JSON."""

import json

_KEYS = {"total": "Total", "avg": "Avg", "min": "Min", "max": "Max", "count": "Count"}


class Aggregate:
    """Count, total, least and greatest duration (ms) of each (category, name)."""

    def __init__(self):
        self._table = {}

    def add(self, category, name, milliseconds):
        """Counts one event in."""
        row = self._table.setdefault(category, {}).get(name)
        if row is None:
            self._table[category][name] = [1, milliseconds, milliseconds, milliseconds]
        else:
            row[0] += 1
            row[1] += milliseconds
            row[2] = min(row[2], milliseconds)
            row[3] = max(row[3], milliseconds)

    def _rows(self, category, sort_by, ascending):
        rows = {
            name: {
                "Count": n,
                "Total": total,
                "Min": low,
                "Max": high,
                "Avg": total / n,
            }
            for name, (n, total, low, high) in self._table[category].items()
        }
        key = _KEYS[sort_by]
        return sorted(
            rows.items(), key=lambda item: item[1][key], reverse=not ascending
        )

    def render(self, form, sort_by, ascending):
        """The statistics as text; form is "table" or "json"."""
        if sort_by not in _KEYS:
            raise AssertionError(
                "Invalid value provided for sort_by: %r. Support: %s"
                % (sort_by, ", ".join(map(repr, _KEYS)))
            )
        if form == "json":
            return self._json(sort_by, ascending)
        return self._text(sort_by, ascending)

    def _json(self, sort_by, ascending):
        times = {
            category: dict(self._rows(category, sort_by, ascending))
            for category in self._table
        }
        return json.dumps(
            {
                "Time": times,
                "Memory": self._memory(sort_by, ascending),
                "Unit": {"Time": "ms", "Memory": "kB"},
            },
            indent=4,
        )

    @staticmethod
    def _memory(sort_by, ascending):
        """Rows of what the CPU's memory holds in kB, by category and name."""
        from . import _plait

        stats = _plait.memory_stats(1, 0)
        kinds = {"Device Storage": ("live", "peak"), "Pool Memory": ("reserved",)}
        key = _KEYS[sort_by]
        tables = {}
        for category, names in kinds.items():
            rows = {}
            for name in names:
                kb = stats[name] / 1024.0
                rows["cpu/0 " + name] = {"Count": 1, "Min": kb, "Max": kb, "Avg": kb}
            tables[category] = dict(
                sorted(
                    rows.items(),
                    key=lambda item: item[1].get(key, 0),
                    reverse=not ascending,
                )
            )
        return tables

    def _text(self, sort_by, ascending):
        lines = [
            "",
            "Profile Statistics:",
            "\tNote the difference in units for different entries.",
        ]
        layout = "%-40s %12s %14s %14s %14s %14s"
        for category in self._table:
            lines += [
                category,
                "=" * len(category),
                layout
                % (
                    "Name",
                    "Total Count",
                    "Time (ms)",
                    "Min Time (ms)",
                    "Max Time (ms)",
                    "Avg Time (ms)",
                ),
                layout
                % (
                    "----",
                    "-----------",
                    "---------",
                    "-------------",
                    "-------------",
                    "-------------",
                ),
            ]
            for name, row in self._rows(category, sort_by, ascending):
                numbers = ["%.4f" % row[key] for key in ("Total", "Min", "Max", "Avg")]
                lines.append(layout % ((name, row["Count"]) + tuple(numbers)))
            lines.append("")
        for category, rows in self._memory(sort_by, ascending).items():
            lines += [category, "=" * len(category)]
            lines += ["%-40s %12.4f kB" % (n, r["Max"]) for n, r in rows.items()] + [""]
        return "\n".join(lines) + "\n"
