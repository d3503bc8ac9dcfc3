import type { Runtime } from "./runtime.js";

const failuresToOpen = 5;
const firstProbe = 500;
const lastProbe = 2000;
const jitter = 0.2;

/** Breaker counts failures in a row. While it is open, nothing is sent but a PING from time to time. */
export class Breaker {
  open = false;
  opened = 0;
  #failures = 0;
  #cancel: (() => void) | undefined;

  constructor(
    private readonly runtime: Runtime,
    /** Reports whether the server answered. */
    private readonly ping: () => Promise<boolean>,
    private readonly changed: (open: boolean, last: Error | undefined) => void,
  ) {}

  success(): void {
    this.#failures = 0;
  }

  failure(error: Error): void {
    if (this.open || ++this.#failures < failuresToOpen) return;
    this.open = true;
    this.opened++;
    this.changed(true, error);
    this.#probe(firstProbe);
  }

  close(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #probe(after: number): void {
    const vary = 1 + jitter * (2 * this.runtime.random() - 1);
    this.#cancel = this.runtime.timer(after * vary, () => {
      void this.ping().then((ok) => {
        if (!this.#cancel) return;
        if (!ok) return this.#probe(Math.min(after * 2, lastProbe));
        this.#cancel = undefined;
        this.#failures = 0;
        this.open = false;
        this.changed(false, undefined);
      });
    }, true);
  }
}
