/** @internal Which of some servers a client connects to. Any of them answers. */
export class Turns {
  /** Set while each of the servers is tried once. */
  starting: Promise<void> | undefined;
  #at = 0;
  #tried = 0;
  #made: number | undefined;
  #done = (): void => {};

  constructor(private readonly servers: number) {
    if (servers === 0) throw new RangeError("headgate: there is no address of a server");
    this.#begin();
  }

  /** The index of the server whose turn it is. */
  get at(): number {
    return this.#at % this.servers;
  }

  made(): void {
    this.#made = performance.now();
    this.#done();
  }

  /** Goes on to the next server after a connection was lost, or not made, and returns the pause before, in milliseconds. */
  lost(): number {
    // A server that closes each connection at once does not count as one that was there.
    if (this.#made !== undefined && performance.now() - this.#made > 1000) this.#tried = 0;
    this.#made = undefined;
    this.#at++;
    if (++this.#tried < this.servers) {
      this.#begin();
      return 0;
    }
    this.#done();
    return 200 + 200 * Math.random();
  }

  #begin(): void {
    this.starting ??= new Promise((resolve) => {
      this.#done = () => {
        this.starting = undefined;
        resolve();
      };
    });
  }
}
