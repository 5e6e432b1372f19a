/**
 * Why a TCP connection ended, in the manner of HAProxy's termination codes
 * (configuration manual, "Session state at disconnection"): who ended it, then in
 * which phase. Upper-case is an act, lower-case a timeout.
 */
export type Cause =
  /** Both sides finished. */
  | '--'
  /** The client left while Usher was still dialling. */
  | 'CC'
  /** No endpoint could be connected to (most often: each refused), or there was none. */
  | 'SC'
  /** No endpoint answered within the dial budget. */
  | 'sC'
  /** Usher ran out of a resource (file descriptors, source ports) while dialling. */
  | 'RC'
  /** The client may not connect: source ranges, or no endpoint that its policy allows. */
  | 'PR'
  /** The client reset the connection while data flowed. */
  | 'CD'
  /** The endpoint reset the connection while data flowed. */
  | 'SD'
  /** The client side was idle for too long. */
  | 'cD'
  /** The endpoint side was idle for too long. */
  | 'sD'
  /**
   * The endpoint went down, or left its name, or the listener was paused, and connections were to
   * be reset then.
   */
  | 'DD'
  /** Usher was shut down and the drain time was over. */
  | 'KD'

/** Each cause in words, for logs and docs. */
export const causeText: Readonly<Record<Cause, string>> = {
  '--': 'finished',
  CC: 'client left while dialling',
  SC: 'no endpoint accepted',
  sC: 'no endpoint answered in time',
  RC: 'out of local resources while dialling',
  PR: 'not allowed to connect',
  CD: 'reset by the client',
  SD: 'reset by the endpoint',
  cD: 'client idle for too long',
  sD: 'endpoint idle for too long',
  DD: 'reset as the endpoint went down or left, or for a pause',
  KD: 'cut at the end of the drain time',
}
