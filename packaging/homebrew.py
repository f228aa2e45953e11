"""Writes the Homebrew formula of a release: `python packaging/homebrew.py URL SDIST [--to FOLDER]`.

URL is the address at which the source distribution SDIST is published; the formula names its checksum. The formula is
for a tap: it installs the dependencies from their wheels, which the rules of Homebrew's own repository do not allow.
"""

import argparse
import hashlib
import sys
from pathlib import Path

FORMULA = """class Mnemod < Formula
  include Language::Python::Virtualenv

  desc "Long-term memory for agents, editors and notes"
  homepage "{homepage}"
  url "{url}"
  sha256 "{sha256}"
  license "Apache-2.0"

  depends_on "python@3.13"

  def install
    virtualenv_create(libexec, "python3.13")
    system "python3.13", "-m", "pip", "--python=#{{libexec}}/bin/python", "install",
           "--only-binary=:all:", "--no-binary=mnemod", "#{{buildpath}}[mcp,pdf]"
    bin.install_symlink libexec/"bin/mnemo", libexec/"bin/mnemod"
    man1.install_symlink Dir[libexec/"share/man/man1/*.1"]
    generate_completions_from_executable(bin/"mnemo", "completion")
  end

  service do
    run [opt_bin/"mnemod"]
    keep_alive successful_exit: false
    process_type :background
    log_path var/"log/mnemod.log"
    error_log_path var/"log/mnemod.log"
  end

  test do
    ENV["HOME"] = testpath
    ENV["MNEMO_DATA_DIR"] = testpath/"data"
    system bin/"mnemo", "add", "The spare key is with Ines"
    assert_match "Ines", shell_output("#{{bin}}/mnemo recall spare key")
    system bin/"mnemo", "down"
  end
end
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("url")
    parser.add_argument("sdist", type=Path)
    parser.add_argument("--to", type=Path, default=Path("dist"))
    options = parser.parse_args(arguments)
    options.to.mkdir(parents=True, exist_ok=True)
    file = options.to / "mnemod.rb"
    file.write_text(formula(options.url, options.sdist.read_bytes()), encoding="utf-8")
    sys.stdout.write(f"{file}\n")
    return 0


def formula(url: str, sdist: bytes) -> str:
    """Return the formula for a source distribution that is published at `url`. Raises ValueError for another one."""
    if not url.startswith("https://") or '"' in url or not url.endswith(".tar.gz"):
        raise ValueError(f"the address of the source distribution must be https://….tar.gz, not {url}")
    homepage = "/".join(url.split("/")[:5])
    return FORMULA.format(homepage=homepage, url=url, sha256=hashlib.sha256(sdist).hexdigest())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
