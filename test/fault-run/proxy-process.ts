import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import type { StatusDocument } from '../../src/observe/status.ts'
import { until } from '../support/until.ts'
import { testHost } from '../support/ports.ts'
import { get } from '../support/usher.ts'
import { loopbackUsher } from '../support/usher-program.ts'

/** Lines of the log that are kept. */
const mostLines = 400

/** Usher as the DaemonSet starts it, for as long as somebody wants it. */
export class ProxyProcess {
  readonly #child
  readonly #lines: string[] = []
  #said = 0
  #ended = ''
  #addresses: { readonly metrics: string; readonly healthz: string } | undefined

  constructor(kubeconfig: string, node: string) {
    const { PATH } = process.env
    const bind = `${testHost}:0`
    this.#child = spawn(
      process.execPath,
      [
        loopbackUsher,
        'run',
        '--proxy-mode=userspace',
        '--capture=listen',
        `--kubeconfig=${kubeconfig}`,
        `--hostname-override=${node}`,
        `--metrics-bind-address=${bind}`,
        `--healthz-bind-address=${bind}`,
      ],
      { env: { PATH }, stdio: ['ignore', 'pipe', 'pipe'] },
    )
    this.#child.on('close', (code, signal) => {
      this.#ended = `it ended with ${code ?? signal}`
    })
    for (const stream of [this.#child.stdout, this.#child.stderr])
      createInterface(stream).on('line', line => this.#take(line))
  }

  async serving(): Promise<void> {
    const done = () => this.#addresses !== undefined || this.#ended !== ''
    await until('Usher serves', done)
    if (this.#ended !== '') throw new Error(`${this.#ended}: ${this.#lines.join('\n')}`)
  }

  /** Why there is no process any more; '' while there is one. */
  get ended(): string {
    return this.#ended
  }

  /** The last of its log. */
  get lines(): readonly string[] {
    return this.#lines
  }

  /** How many lines it wrote. */
  get said(): number {
    return this.#said
  }

  async status(): Promise<StatusDocument> {
    return JSON.parse((await this.#get('metrics', '/status')).body) as StatusDocument
  }

  async metrics(): Promise<string> {
    return (await this.#get('metrics', '/metrics')).body
  }

  async health(path: '/livez' | '/healthz'): Promise<number> {
    return (await this.#get('healthz', path)).status
  }

  /** Memory that is in RAM, in bytes; `most` since the start. */
  memory(): { readonly now: number; readonly most: number } {
    const text = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8')
    const field = (name: string): number =>
      Number(new RegExp(String.raw`${name}:\s+(\d+) kB`).exec(text)?.[1] ?? 0) * 1024
    return { now: field('VmRSS'), most: field('VmHWM') }
  }

  /** Makes it read everything anew. */
  reload(): void {
    this.#child.kill('SIGHUP')
  }

  async end(): Promise<void> {
    this.#child.kill('SIGKILL')
    await until('Usher is gone', () => this.#ended !== '')
  }

  #get(server: 'metrics' | 'healthz', path: string) {
    return get(this.#addresses?.[server] ?? '', path)
  }

  #take(line: string): void {
    this.#said += 1
    this.#lines.push(line)
    if (this.#lines.length > mostLines) this.#lines.shift()
    if (this.#addresses !== undefined || !line.includes('"serving"')) return
    const record = JSON.parse(line) as { metrics: string; healthz: string }
    this.#addresses = record
  }
}
