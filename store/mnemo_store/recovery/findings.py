"""The findings about a store since its start: damage that was recovered, and data that is lost."""


class Findings:
    """Sentences for people, each once, in the order in which they were found."""

    def __init__(self) -> None:
        self.recovered: list[str] = []  # found wrong and repaired
        self.data_losses: list[str] = []  # found wrong and beyond repair from here

    def record_recovered(self, what: str) -> None:
        if what not in self.recovered:
            self.recovered.append(what)

    def record_data_loss(self, what: str) -> None:
        if what not in self.data_losses:
            self.data_losses.append(what)
