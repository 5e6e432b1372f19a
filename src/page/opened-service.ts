import { smallTable } from './cells.ts'
import { el, setText } from './dom.ts'
import {
  type Asked,
  ask,
  type Ended,
  type EndedConnection,
  type OpenConnection,
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
/** Kept of the connections that have ended, and listed of the open ones. */
const mostEnded = 50
const mostOpen = 20

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
  #known: readonly EndedConnection[] = []
  #after = ''

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
      if (!document.hidden) await this.#ask(signal)
      await new Promise(resolve => setTimeout(resolve, everyMs))
    }
  }

  async #ask(signal: AbortSignal): Promise<void> {
    const { name, protocol } = this.row
    try {
      const whole = await ask<{ servicePorts: readonly ServiceStatus[] }>(
        'status',
        { service: name },
        signal,
      )
      if (protocol === 'TCP') {
        const after = this.#after === '' ? {} : { after: this.#after }
        this.#showEnded(await ask<Ended>('ended', { routes: name, ...after }, signal))
        this.#showOpen(
          await ask<{ connections: readonly OpenConnection[]; left: number }>(
            'connections',
            { routes: name },
            signal,
          ),
        )
      } else {
        this.#ended.fill([], `Of ${protocol} there is no record.`)
        this.#open.element.hidden = true
      }
      this.#showStatus(whole)
    } catch (error) {
      if (!signal.aborted) setText(this.#lost, `No answer from Usher: ${String(error)}`)
    }
  }

  #showStatus(asked: Asked<{ servicePorts: readonly ServiceStatus[] }>): void {
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
    this.#endpoints.fill(
      endpointRows(found, lastErrors(this.#known), Date.now()),
      'None: clients are refused.',
    )
    this.#vips.fill(vipRows(found), 'None.')
  }

  #showEnded(asked: Asked<Ended>): void {
    if ('why' in asked) return this.#ended.fill([], asked.why)
    const { connections, next } = asked.answer
    this.#after = next
    this.#known = [...connections.toReversed(), ...this.#known].slice(0, mostEnded)
    this.#ended.fill(endedRows(this.#known), 'None has ended since this was opened.')
  }

  #showOpen(
    asked: Asked<{ connections: readonly OpenConnection[]; left: number }>,
  ): void {
    if ('why' in asked) return this.#open.fill([], asked.why)
    const { connections } = asked.answer
    this.#open.fill(openRows(connections.slice(0, mostOpen)), 'None.')
  }
}

/** So that what is selected in it stays. */
const isSame = (list: HTMLElement, nodes: readonly HTMLElement[]): boolean =>
  list.children.length === nodes.length &&
  nodes.every((node, i) => list.children[i]?.textContent === node.textContent)
