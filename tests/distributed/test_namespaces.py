"""Ranks on two machines (network namespaces), over a link that can be cut."""

from jobs import BUILD, needs_mpi
from namespaces import machines  # noqa: F401 (a fixture)
from test_transport import outcome

pytestmark = needs_mpi
CHECK = BUILD / "transport_check"


def test_messages_go_over_the_link(machines):  # noqa: F811
    result = machines.plait_run(CHECK, "messages", options=["--heartbeat", "60"])
    assert [outcome(result, rank) for rank in range(2)] == ["ok", "ok"], result.text
    assert result.status == 0
    # 10 MiB of messages each way, and little else.
    for count in machines.bytes_sent():
        assert 10.0 * 2**20 < count < 12 * 2**20


def test_a_killed_rank_is_named_with_its_machine(machines):  # noqa: F811
    result = machines.plait_run(CHECK, "kill", options=["--heartbeat", "60"])
    assert outcome(result, 0).startswith("rank 1 (host plait-b): lost"), result.text
    assert "rank 1 ended with signal 9" in result.text


def test_a_cut_link_is_a_lost_rank(machines):  # noqa: F811
    options = ["--heartbeat", "2", "--grace", "1"]
    result = machines.plait_run(CHECK, "cut", options=options)
    assert "rank 1 (host plait-b): lost: no sign of life" in outcome(result, 0), (
        result.text
    )
    assert result.status != 0
