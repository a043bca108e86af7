"""Takes the casts of automatic mixed precision out of a graph's JSON."""

CASTS = ("amp_cast", "amp_multicast")


def remove_casts(graph):
    """The graph (as json.loads gives it) without the amp_cast and amp_multicast that
    nodes read: they read what was cast. Casts among the outputs stay."""
    nodes, kept, places = graph["nodes"], [], {}
    heads = {head[0] for head in graph["heads"]}

    def source(entry):
        while nodes[entry[0]]["op"] in CASTS:
            inputs = nodes[entry[0]]["inputs"]
            entry = inputs[entry[1] if len(inputs) > 1 else 0]
        return [places[entry[0]], *entry[1:]]

    for i, node in enumerate(nodes):
        if node["op"] in CASTS and i not in heads:
            continue
        node = dict(node, inputs=[source(e) for e in node["inputs"]])
        if "subgraphs" in node:
            node["subgraphs"] = [remove_casts(g) for g in node["subgraphs"]]
        places[i] = len(kept)
        kept.append(node)
    slim = dict(graph, nodes=kept)
    slim["heads"] = [[places[h[0]], *h[1:]] for h in graph["heads"]]
    slim["arg_nodes"] = [places[i] for i in graph["arg_nodes"]]
    slim.pop("node_row_ptr", None)
    return slim
