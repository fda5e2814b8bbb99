"""Writes down what is said in a file, with a Whisper model on this machine. Runs by itself, without the rest
of Hermes: `whisper_child.py <model> <language or ""> <file>`. The words go to standard output."""

import os
import sys


def main(model: str, language: str, path: str) -> None:
    from faster_whisper import WhisperModel

    os.nice(5)
    whisper = WhisperModel(model, compute_type="int8")
    # Silence is left out: the model invents words for it.
    segments, _ = whisper.transcribe(path, language=language or None, vad_filter=True)
    print(" ".join(segment.text.strip() for segment in segments))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Exception as error:
        sys.exit(f"{type(error).__name__}: {error}")
