import {
  outputOf,
  type RunTool,
  type StartedTool,
  startTool,
  ToolError,
} from './run-tool.ts'

/**
 * The tools by which one owner changes the host. When its turn is over none of them may go
 * on: a restore that waits for a lock would write after the next owner has.
 */
export class StoppableTools {
  readonly #running = new Set<StartedTool>()
  #isStopped = false

  /** As `runTool`; rejects at once while stopped. */
  readonly run: RunTool = async (command, args, options) => {
    if (this.#isStopped)
      throw new ToolError(
        `${command}: not started, because Usher is ending`,
        'failed',
        '',
      )
    const tool = startTool(command, args, options)
    this.#running.add(tool)
    void tool.exited.then(() => this.#running.delete(tool))
    return outputOf(tool)
  }

  /** Kills (SIGKILL) what runs, and starts no more; resolves when all of it has gone. */
  async stop(): Promise<void> {
    this.#isStopped = true
    const running = [...this.#running]
    for (const { kill } of running) kill()
    await Promise.all(running.map(({ exited }) => exited))
  }

  /** After `stop`: for what is to be done at the end. */
  allow(): void {
    this.#isStopped = false
  }
}
