export {
  Headgate, unavailable, type Attributes, type CallOptions, type CheckOptions, type KeyLimit, type Options, type Reservation,
  type ReserveOptions, type Slot, type Stats,
} from "./client.js";
export type { Decision, LimitDecision, Source } from "./decision.js";
export { HeadgateError, NotSentError, ServerError } from "./errors.js";
export {
  Limit, Policy, perDay, perHour, perMinute, perSecond, type Algorithm, type LimitOptions, type OnFailure, type PolicyOptions,
} from "./limit.js";
export type { Runtime } from "./runtime.js";
export type { Transport } from "./transport.js";
export { addressKey } from "./address.js";
export { Backstop } from "./backstop.js";
