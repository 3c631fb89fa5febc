"""Deficit round robin as a policy of your own: it decides as humpyard's `drr` does."""

from __future__ import annotations

import humpyard as hy
from humpyard.policies import Packet, SchedulerConfig


class Drr(hy.Share):
    """Turns in a ring, each worth a quantum per weight; what is left over is kept.

    `credit` holds the clients that are not idle, in the order of their next turns; `turns` holds those whose turn has
    begun.
    """

    promises = ("work_conserving",)

    def start(self, config: SchedulerConfig) -> None:
        self.quantum, self.latest, self.credit, self.turns = config.longest, -1, dict[int, int](), set[int]()

    def on_wake(self, now: int, client: int, head: Packet) -> None:
        self.credit[client] = 0
        if self.latest in self.turns:  # Newcomers go before the turn that began last.
            self.credit[self.latest] = self.credit.pop(self.latest)

    def pick(self, now: int, core: int) -> int | None:
        while True:
            if (client := next((client for client in self.heads if client in self.turns), -1)) < 0:
                self.latest = client = next(client for client in self.credit if client in self.heads)
                self.credit[client] = self.credit.pop(client) + self.quantum * self.weights[client]
                self.heads[client] = self.heads.pop(client)  # Of turns that go on, the first that began is first.
                self.turns.add(client)
            if self.credit[client] >= self.heads[client].estimate:
                return client
            self.turns.remove(client)

    def on_dispatch(self, now: int, core: int, client: int, sent: Packet) -> None:
        self.credit[client] -= sent.estimate

    def on_completion(self, now: int, core: int, client: int, sent: Packet, used: int) -> None:
        self.credit[client] += sent.estimate - used

    def on_idle(self, now: int, client: int) -> None:
        del self.credit[client]
        self.turns.discard(client)


if __name__ == "__main__":
    hy.testing.check(Drr, fair=3, like="drr")
    print("Drr keeps its promises, and decides as drr does")
