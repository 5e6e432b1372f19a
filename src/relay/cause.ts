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
  /** All endpoints were full for longer than a client may wait, or too many clients waited. */
  | 'sQ'
  /** Usher ran out of a resource (file descriptors, source ports) while dialling. */
  | 'RC'
  /** The client may not connect: source ranges, or no endpoint that its policy allows. */
  | 'PR'
  /** One of the limits on connections was reached: of the route, or of the client's address. */
  | 'PL'
  /** What the client said first, a PROXY header or a ClientHello, was malformed, too long or late. */
  | 'PH'
  /** No endpoints are for the TLS server that the client asks for, or for one that names none. */
  | 'PN'
  /** It goes round: an endpoint leads back to the listener through other proxies. */
  | 'PO'
  /** The client reset the connection while data flowed. */
  | 'CD'
  /** The endpoint reset the connection while data flowed. */
  | 'SD'
  /** The client side was idle for too long. */
  | 'cD'
  /** The endpoint side was idle for too long. */
  | 'sD'
  /**
   * The endpoint went down, left its name or was drained, one that goes before it is back, or the
   * listener was paused, and connections were to be reset then.
   */
  | 'DD'
  /** It had lasted as long as its route lets connections last. */
  | 'LD'
  /** Usher was shut down and the drain time was over, or an operator has closed the connection. */
  | 'KD'

/** Each cause in words, for logs and docs. */
export const causeText: Readonly<Record<Cause, string>> = {
  '--': 'finished',
  CC: 'client left while dialling',
  SC: 'no endpoint accepted',
  sC: 'no endpoint answered in time',
  sQ: 'no free slot at an endpoint in time',
  RC: 'out of local resources while dialling',
  PR: 'not allowed to connect',
  PL: 'over a limit',
  PH: 'malformed, too long or late first bytes',
  PN: 'no endpoints for the server name',
  PO: 'loops through other proxies',
  CD: 'reset by the client',
  SD: 'reset by the endpoint',
  cD: 'client idle for too long',
  sD: 'endpoint idle for too long',
  DD: 'reset as the endpoint went down, left, was drained or no longer needed, or for a pause',
  LD: 'reached its maximum lifetime',
  KD: 'cut at the end of the drain time, or by an operator',
}

/** What the kernel says of a peer that it gave up (tcp(7): keep-alive, TCP_USER_TIMEOUT); ICMP may have said why. */
const givenUp = new Set(['ETIMEDOUT', 'EHOSTUNREACH', 'ENETUNREACH', 'EHOSTDOWN'])

/** Why a connection has ended whose socket has an error with this code. */
export const brokenBy = (isBackend: boolean, code: string): Cause => {
  if (givenUp.has(code)) return isBackend ? 'sD' : 'cD'
  return isBackend ? 'SD' : 'CD'
}

/** One dial attempt, for the record of a connection. */
export interface Attempt {
  readonly endpoint: string
  /**
   * `connected`, `refused`, `timeout`, `lost` (another was first), `closed early` (connected, and
   * ended before its first byte), `no answer` (connected, and silent for too long when its client
   * had spoken), `not replayed` (one of the two, and the client had said more than `replay`, so that no
   * other was dialled) or an errno code.
   */
  result: string
  /** Milliseconds from the start of the attempt to its result. */
  ms: number
}

/** What there is to say about a TCP connection that has ended. */
export interface ConnectionRecord {
  readonly listener: string
  readonly client: string
  /** `ip:port` of the endpoint that took it, '' when none did. */
  readonly endpoint: string
  readonly attempts: readonly Attempt[]
  readonly bytesToBackend: number
  readonly bytesToClient: number
  /** Milliseconds from accept to connected (or given up), and from accept to the end. */
  readonly dialMs: number
  readonly totalMs: number
  readonly cause: Cause
  /** The errno or reason behind an abnormal cause, '' otherwise. */
  readonly detail: string
}
