/** Time, timers and chance. Tests replace it. */
export interface Runtime {
  /** Milliseconds of a monotonic clock. */
  now(): number;
  /** Milliseconds since 1970. */
  date(): number;
  /** Calls `f` once, `ms` later, and returns what cancels it. A timer of the background keeps no process alive. */
  timer(ms: number, f: () => void, background: boolean): () => void;
  /** A number from 0 to 1. */
  random(): number;
}

/** The clock of the machine. */
export const system: Runtime = {
  now: () => performance.now(),
  date: () => Date.now(),
  timer(ms, f, background) {
    let gone = false;
    // If the process was busy, replies that have come are read before the timer has its effect.
    const t = setTimeout(() => {
      const i = setImmediate(() => {
        if (!gone) f();
      });
      if (background) i.unref();
    }, ms);
    if (background) t.unref();
    return () => {
      gone = true;
      clearTimeout(t);
    };
  },
  random: () => Math.random(),
};
