import { type SmallTable, smallTable } from './cells.ts'
import { el, setText } from './dom.ts'
import {
  type Asked,
  ask,
  type Ended,
  type EndedConnection,
  type OpenConnections,
  type ServiceStatus,
} from './service-status.ts'
import {
  endedRows,
  endedTitles,
  endpointRows,
  endpointTitles,
  factsOf,
  lastErrors,
  openRows,
  openTitles,
  vipRows,
  vipTitles,
} from './service-tables.ts'
import { identity, type Row } from './store.ts'

const everyMs = 1000
/** Kept of the connections that have ended, and listed of the open ones: no more is asked for. */
const mostEnded = 50
const mostOpen = 20

interface Status {
  readonly servicePorts: readonly ServiceStatus[]
}

/** A Service with all there is to know of it, asked for each second while it is seen. */
export class OpenedService {
  readonly row: Row
  readonly #panel: HTMLElement
  readonly #stop = new AbortController()
  readonly #facts = el('dl')
  readonly #vips = smallTable('VIPs', vipTitles)
  readonly #endpoints = smallTable('Endpoints', endpointTitles)
  readonly #ended = smallTable('Last connections', endedTitles)
  readonly #open = smallTable('Open connections', openTitles)
  readonly #lost = el('p', { class: 'trouble', role: 'status' })
  /** Newest first. */
  #known: readonly EndedConnection[] = []
  #leftOut = 0
  #hadGap = false
  #after: string | undefined
  /** What this Usher does not answer is not asked for again. */
  readonly #refused = new Set<SmallTable>()

  constructor(panel: HTMLElement, row: Row, close: () => void) {
    this.row = row
    this.#panel = panel
    const closing = el('button', { type: 'button', title: 'Esc' }, 'Close')
    closing.addEventListener('click', close)
    const { name, protocol, family } = row
    const title = el(
      'h2',
      {},
      name.replace(/^route\//, ''),
      el('small', {}, `${protocol} ${family}`),
    )
    const parts = [this.#endpoints, this.#ended, this.#open, this.#vips]
    panel.replaceChildren(
      el('div', { class: 'title' }, title, closing),
      this.#lost,
      this.#facts,
      ...parts.map(({ element }) => element),
    )
    panel.hidden = false
    panel.scrollTop = 0
    for (const { element } of [this.#ended, this.#open])
      element.hidden = protocol !== 'TCP'
    void this.#follow()
  }

  close(): void {
    this.#stop.abort()
    this.#panel.hidden = true
    this.#panel.replaceChildren()
  }

  async #follow(): Promise<void> {
    const { signal } = this.#stop
    while (!signal.aborted) {
      if (!document.hidden)
        await this.#look(signal).catch((error: unknown) => {
          if (!signal.aborted)
            setText(this.#lost, `No answer from Usher: ${String(error)}`)
        })
      await new Promise(resolve => setTimeout(resolve, everyMs))
    }
  }

  async #look(signal: AbortSignal): Promise<void> {
    const { name, protocol } = this.row
    const after = this.#after === undefined ? {} : { after: this.#after }
    const newest = { routes: name, limit: String(mostEnded), ...after }
    const some = { routes: name, limit: String(mostOpen) }
    const [status, ended, open] = await Promise.all([
      ask<Status>('status', { service: name }, signal),
      ...(protocol === 'TCP'
        ? ([
            this.#unlessRefused(this.#ended, () => ask<Ended>('ended', newest, signal)),
            this.#unlessRefused(this.#open, () =>
              ask<OpenConnections>('connections', some, signal),
            ),
          ] as const)
        : []),
    ])
    if (ended !== undefined) this.#showEnded(ended)
    if (open !== undefined) this.#showOpen(open)
    this.#showStatus(status)
  }

  async #unlessRefused<T>(
    table: SmallTable,
    asking: () => Promise<Asked<T>>,
  ): Promise<Asked<T> | undefined> {
    if (this.#refused.has(table)) return undefined
    const asked = await asking()
    if ('why' in asked && asked.isFinal) this.#refused.add(table)
    return asked
  }

  #showStatus(asked: Asked<Status>): void {
    const all = 'answer' in asked ? asked.answer.servicePorts : []
    const found = all.find(
      ({ servicePort: name, protocol, family }) =>
        identity({ name, protocol, family }) === identity(this.row),
    )
    setText(this.#lost, 'why' in asked ? asked.why : found ? '' : 'This Service is gone.')
    if (found === undefined) return
    const facts = factsOf(found).flatMap(([name, value]) => [
      el('dt', {}, name),
      el('dd', {}, value),
    ])
    if (!isSame(this.#facts, facts)) this.#facts.replaceChildren(...facts)
    const endpoints = endpointRows(found, lastErrors(this.#known), Date.now())
    this.#endpoints.show(endpoints, endpoints.length === 0 ? 'None.' : '')
    this.#vips.show(vipRows(found), '')
  }

  /** With a refusal what is known stays: it has ended. */
  #showEnded(asked: Asked<Ended>): void {
    if ('answer' in asked) this.#learn(asked.answer)
    const note = 'why' in asked ? asked.why : this.#endedNote()
    this.#ended.show(endedRows(this.#known), note)
  }

  #learn({ connections, leftOut, gap, next }: Ended): void {
    this.#after = next
    const all = [...connections.toReversed(), ...this.#known]
    this.#known = all.slice(0, mostEnded)
    this.#leftOut += leftOut + all.length - this.#known.length
    this.#hadGap ||= gap
  }

  #endedNote(): string {
    const notes = [
      this.#leftOut === 0 ? '' : `${this.#leftOut} more that are not listed.`,
      this.#hadGap ? 'Some ended meanwhile that nobody kept.' : '',
    ].filter(Boolean)
    if (notes.length > 0) return notes.join(' ')
    return this.#known.length === 0 ? 'None has ended since this was opened.' : ''
  }

  #showOpen(asked: Asked<OpenConnections>): void {
    if ('why' in asked) this.#open.show([], asked.why)
    else this.#open.show(openRows(asked.answer.connections), openNote(asked.answer))
  }
}

const openNote = ({ connections, left }: OpenConnections): string =>
  connections.length === 0 ? 'None.' : left === 0 ? '' : `and ${left} more.`

/** So that what is selected in it stays. */
const isSame = (list: HTMLElement, nodes: readonly HTMLElement[]): boolean =>
  list.children.length === nodes.length &&
  nodes.every((node, i) => list.children[i]?.textContent === node.textContent)
