import type { Ports } from './backends/backend.ts'
import type { Question } from './load/main.ts'
import { type Child, startChild } from './process/child.ts'
import { pinProcess } from './process/pin.ts'
import type { Sample, Scenario } from './scenarios/scenario.ts'
import type { RunningTarget, Target } from './targets/target.ts'

/** Beyond its window a run may take so long before it is given up. */
const patienceMs = 30_000

/**
 * The processes of a bench: one with the generators, one with the backends, and one for
 * each target in between.
 */
export class Stage {
  readonly #pin: boolean
  readonly #generator: Child
  readonly #backend: Child
  readonly #ports: Ports
  readonly #closing = new AbortController()
  readonly #running = new Map<Target, RunningTarget>()

  private constructor(pin: boolean, generator: Child, backend: Child, ports: Ports) {
    this.#pin = pin
    this.#generator = generator
    this.#backend = backend
    this.#ports = ports
  }

  /** @param pin - client and backend on CPU 0, proxies on CPU 1 */
  static async open(pin: boolean): Promise<Stage> {
    const backend = startChild(new URL('./backends/main.ts', import.meta.url))
    const generator = startChild(new URL('./load/main.ts', import.meta.url))
    try {
      const ports = (await backend.ask(undefined, patienceMs)) as Ports
      if (pin)
        await Promise.all([backend, generator].map(({ pid }) => pinProcess(pid, 0)))
      return new Stage(pin, generator, backend, ports)
    } catch (error) {
      await Promise.all([generator.stop(), backend.stop()])
      throw error
    }
  }

  /** Starts a target, anew when it is running already. Rejects when it doesn't serve. */
  async start(target: Target): Promise<void> {
    await this.#running.get(target)?.stop()
    this.#running.delete(target)
    const running = await target.start(this.#ports, this.#closing.signal)
    this.#running.set(target, running)
    if (this.#pin && running.pid !== undefined) await pinProcess(running.pid, 1)
  }

  /** One run of a scenario against a target. Rejects with the reason when it fails. */
  async run(scenario: Scenario, target: Target, seconds: number): Promise<Sample> {
    const running = this.#running.get(target)
    if (running === undefined) throw new Error(`${target.name} is not running`)
    const question: Question = {
      scenario: scenario.name,
      run: {
        port: running.ports[scenario.backend],
        seconds,
        pids: {
          generator: this.#generator.pid,
          backend: this.#backend.pid,
          ...(running.pid === undefined ? {} : { proxy: running.pid }),
        },
      },
    }
    const answer = await this.#generator.ask(question, seconds * 1000 + patienceMs)
    return answer as Sample
  }

  /** That a target has ended or what it wrote last, '' when all is quiet. */
  complaint(target: Target): string {
    return this.#running.get(target)?.complaint() ?? ''
  }

  /** Ends every process. A run or a start on its way rejects. */
  async close(): Promise<void> {
    this.#closing.abort()
    const running = [...this.#running.values()]
    this.#running.clear()
    await Promise.all(running.map(target => target.stop()))
    await Promise.all([this.#generator.stop(), this.#backend.stop()])
  }
}
