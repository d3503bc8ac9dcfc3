"""The recipes of docs/howto, from examples/holds/python. As a program it runs one of
them, and never comes to an end:

python recipes.py llm|login|billing|exports WHO host:port...
"""

import importlib.util
import pathlib
import sys
import threading

EXAMPLES = pathlib.Path(__file__).parents[4] / "examples" / "holds"


def example(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / "python" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


connect, llm, login, billing, exports = map(example, ("connect", "llm", "login", "billing", "exports"))


def large_call(r, key, answer):
    """Reserves 15,000 tokens."""
    return llm.stream(r, key, "large-2", 5_000, 10_000, answer)


def chunks(n, after=lambda: None):
    """An answer that takes 6000 tokens and then n times 1000. after is called behind the
    first of these."""
    for i in range(n + 1):
        yield "word ", 6_000 + i * 1_000
        if i == 1:
            after()


def stop():
    threading.Event().wait()


def export(lost):
    print("runs", flush=True)
    stop()


def main(recipe, who, *nodes):
    r = connect.connect(*((host, int(port)) for host, port in (node.split(":") for node in nodes)))
    execute = r.execute_command

    def tell(*words):  # says what is held
        reply = execute(*words)
        if words[0] == "RL.RESERVE":
            print(reply[8], flush=True)
        return reply

    r.execute_command = tell
    match recipe:
        case "llm":
            list(large_call(r, who, chunks(1, stop)))
        case "login":
            login.attempt(r, who, "198.51.100.7", stop)
        case "exports":
            exports.run(r, who, f"{who}-job", 2, export)
        case "billing":
            for i in range(10_000):
                print(f"{who}-{i}", flush=True)
                billing.charge(r, who, f"{who}-{i}", 3)


if __name__ == "__main__":
    main(*sys.argv[1:])
