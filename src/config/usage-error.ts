import type { Command } from './commands.ts'

/**
 * The user called Usher in a way it does not understand: printed without a stack, with
 * the command to ask for help, and exit code 2.
 */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  /** The command that was being called, or undefined when it did not get that far. */
  readonly command: Command | undefined

  constructor(message: string, command?: Command) {
    super(message)
    this.command = command
  }
}
