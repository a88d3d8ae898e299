"""A server of which a test says how it ends."""

import os

from testing.server_process import ServerProcess


class MortalServer(ServerProcess):
    """As ServerProcess; one that has ended within the block may have."""

    def signal(self, how):
        os.kill(self.pid, how)

    def end(self, how, timeout_s=60):
        """Sends a signal and gives the exit status."""
        self.signal(how)
        return self.wait(timeout_s)

    def wait(self, timeout_s=60):
        """The exit status of one that has been told to end."""
        return self._process.wait(timeout_s)

    def __exit__(self, *error):
        if self._process.poll() is None:
            return super().__exit__(*error)
        return self._close()
