/** What sends commands: one of `headgate/ioredis`, `headgate/node-redis`, or your own. */
export interface Transport {
  /**
   * Sends one command, once, and returns its reply. It rejects with a ServerError if the server
   * answered with an error, with a NotSentError if the command was not and will not be sent, and
   * with any other error if nobody knows.
   */
  send(args: readonly string[]): Promise<unknown>;
  /** Set while the first connection is being made. Calls wait for it, within their timeout. It never rejects. */
  readonly starting?: Promise<void> | undefined;
  /** Makes a new connection in place of one that does not answer. */
  renew?(): void;
  /** Ends the connection, if it is the transport's own. */
  close?(): void | Promise<void>;
}
