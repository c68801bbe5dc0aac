# Stands for the module test.service of kafka-python, which its source archive lacks.


class ExternalService:
    """A broker that runs already."""

    def __init__(self, host, port):
        self.host, self.port = host, port


class SpawnedService:
    """A broker that the tests would start."""
