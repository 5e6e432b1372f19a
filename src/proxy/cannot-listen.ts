/** A reason to end that needs no stack. */
export class CannotListen extends Error {
  override readonly name = 'CannotListen'
  readonly code = 'EADDRINUSE'
}
