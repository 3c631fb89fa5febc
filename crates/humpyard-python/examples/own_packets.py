"""Your own items under policies of humpyard: print jobs shared by gr3, messages spread over cores by ps-hrw."""

from humpyard import Scheduler


def share() -> list[int]:
    """Whose jobs are among the first 54 of 120 that one printer (a core) does, at weights 5, 3 and 1."""
    printer = Scheduler("gr3", weights=[5, 3, 1])
    jobs = {printer.arrive(0, client=number % 3, length=1000): number for number in range(120)}
    done = [0, 0, 0]
    for now in range(1, 55):
        dispatch = printer.next(now, 0)
        assert dispatch is not None, "jobs are waiting"
        done[jobs.pop(dispatch.slot) % 3] += 1  # Your work would stand here.
        printer.complete(now, dispatch.slot)
    return done


def steer() -> list[set[int]]:
    """Which cores serve connections that hold 60, 30 and 10 of 100 bytes, on two sockets of two caches of two cores."""
    server = Scheduler("ps-hrw", cores=8, flows=3, topology="2x2x2")
    lengths = [600, 300, 100]
    for number in range(600):
        server.arrive(0, flow=number % 3, key=3 + number % 3, length=lengths[number % 3])
    cores: list[set[int]] = [set(), set(), set()]
    for now in range(8000):
        if dispatch := server.next(now, now % 8):
            server.complete(now, dispatch.slot)
            # The connection sends its next.
            server.arrive(now, flow=dispatch.flow, key=dispatch.key, length=dispatch.length)
            if now >= 4000:
                cores[dispatch.flow].add(now % 8)
    return cores


print(f"gr3: {share()} of 54 jobs")
print(f"ps-hrw: cores {steer()}")
