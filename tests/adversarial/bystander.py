"""Another client: one stream, one session, a step 5 ms after the last one has
been answered. Runs in a process of its own, so that no attack slows its clock.

    bystander.py ADDRESS

Prints "ready" after its first steps. Ends at the end of its input, and prints
as JSON what it saw: round trips in milliseconds, and everything that was not
the answer to a step.
"""

import json
import queue
import sys
import threading
import time

from adversarial.stubs import (
    Client, generation, grpc, reason_in, reason_of, step_request)

PAUSE_S = 0.005
CALM_STEPS = 20


class Bystander:

    def __init__(self, address):
        self.round_trips = []
        self.errors = []
        self._address = address
        self._ended = threading.Event()

    def run(self, on_calm):
        try:
            with Client(self._address) as client:
                name = client.new_session()
                self._ping_pong(client, name, on_calm)
                client.delete_session(name)
        except grpc.RpcError as error:
            self.errors.append(f"{error.code().name} {reason_of(error)}: "
                               f"{error.details()}")

    def end(self):
        self._ended.set()

    def _ping_pong(self, client, name, on_calm):
        requests = queue.SimpleQueue()
        answers = client.stream_step(iter(requests.get, None))
        results = (result for answer in answers for result in answer.results)
        position = 0
        while not self._ended.wait(PAUSE_S):
            start = time.monotonic()
            requests.put(generation.StreamStepRequest(
                step=step_request(name, expected_position=position)))
            result = next(results)
            if not result.HasField("step"):
                self.errors.append(reason_in(result.error))
                break
            self.round_trips.append((time.monotonic() - start) * 1e3)
            position += 1
            if result.step.position != position:
                self.errors.append(f"position {result.step.position} is not "
                                   f"{position}")
            if position == CALM_STEPS:
                on_calm()
        requests.put(None)
        for _ in results:
            self.errors.append("an answer without a request")


def main():
    bystander = Bystander(sys.argv[1])

    def wait_for_end():
        sys.stdin.read()
        bystander.end()

    threading.Thread(target=wait_for_end, daemon=True).start()
    bystander.run(lambda: print("ready", flush=True))
    print(json.dumps({"round_trips": bystander.round_trips,
                      "errors": bystander.errors}), flush=True)


if __name__ == "__main__":
    main()
