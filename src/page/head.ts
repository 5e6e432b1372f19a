import { byId, el, setAttribute, setText } from './dom.ts'
import { bytesForPeople, count, forPeople, lastReadText } from './format.ts'
import { headlineOf, type ShownPort } from './service-words.ts'
import type { Head, Tick } from './wire.ts'

/** The sentence at the top, and when the source was read last. `lost`: why there is no news. */
export const showHead = (
  head: Head,
  tick: Tick,
  ports: readonly ShownPort[],
  lost: string,
): void => {
  const { about, source } = head
  const { parts, severity } = headlineOf(head, ports)
  const health = byId('health')
  const isTrouble = lost !== '' || severity >= 3
  setText(health, lost === '' ? parts.join(' · ') : lost)
  setAttribute(health, 'class', isTrouble ? 'trouble' : severity === 2 ? 'warning' : '')
  setText(byId('about'), about)
  const lastRead = lastReadText(source.name, tick.heardAt, tick.now)
  const lastReadElement = byId('heard')
  setText(
    lastReadElement,
    source.error === '' ? lastRead : `${lastRead}, and not since: ${source.error}`,
  )
  setAttribute(lastReadElement, 'class', source.error === '' ? '' : 'trouble')
  const { node } = head
  setText(byId('node'), node === '' ? 'Usher' : `Usher on ${node}`)
  document.title = `${isTrouble ? '● ' : ''}${node === '' ? '' : `${node} · `}Usher`
}

export const showProblems = ({ problems, problemCount }: Head): void => {
  const section = byId('problems')
  section.hidden = problemCount === 0
  const more = problemCount - problems.length
  const title = count(problemCount, 'configuration problem')
  section.replaceChildren(
    el('h2', {}, title),
    el(
      'ul',
      {},
      ...problems.map(problem => el('li', {}, problem)),
      ...(more > 0 ? [el('li', {}, `and ${more} more: usher status`)] : []),
    ),
  )
}

/** Figures of the process, at the bottom. */
export const showProcess = (tick: Tick): void => {
  const footer = byId('process')
  const facts = factsOf(tick)
  while (footer.children.length > facts.length) footer.lastElementChild?.remove()
  while (footer.children.length < facts.length)
    footer.append(el('span', {}, el('b'), ' ', el('span')))
  for (const [i, { name, value, widest = value, isTrouble = false }] of facts.entries()) {
    const fact = footer.children[i] as HTMLElement
    const [named, valueElement] = fact.children as unknown as readonly [
      HTMLElement,
      HTMLElement,
    ]
    setText(named, name)
    setText(valueElement, value)
    valueElement.style.minWidth = `${widest.length}ch`
    setAttribute(fact, 'class', isTrouble ? 'trouble' : '')
  }
}

interface Fact {
  readonly name: string
  readonly value: string
  /** A value as long as it usually gets: it has the room, so that the line does not move. */
  readonly widest?: string
  readonly isTrouble?: boolean
  /** Unless it is said, yes. */
  readonly isShown?: boolean
}

const factsOf = (tick: Tick): readonly Fact[] => {
  const { fds, lateMs, workers, openFds, failedListeners, restarts } = tick
  const hangs = workers.reduce((sum, worker) => sum + worker.hangs, 0)
  const died = workers.reduce((sum, worker) => sum + worker.restarts, 0)
  const held = workers.reduce((sum, worker) => sum + worker.heldBytes, 0)
  const { limit, used } = fds
  const isSynced = tick.appliedAt !== null
  const facts: readonly Fact[] = [
    { name: 'up', value: forPeople(tick.now - tick.startedAt), widest: '59m59s' },
    {
      name: 'last sync',
      value: isSynced ? `${forPeople(tick.now - (tick.appliedAt ?? 0))} ago` : 'none yet',
      widest: '59m59s ago',
      isTrouble: !isSynced,
    },
    {
      name: 'listeners failed',
      value: String(failedListeners),
      isTrouble: failedListeners > 0,
    },
    {
      name: 'relay descriptors',
      value: `${used} of ${limit}`,
      widest: `${limit} of ${limit}`,
      isTrouble: used > 0.8 * limit,
      isShown: limit > 0,
    },
    {
      name: 'accepting',
      value: 'paused for want of descriptors',
      isTrouble: true,
      isShown: tick.acceptPaused,
    },
    {
      name: 'open files',
      value: String(openFds),
      widest: '9999',
      isShown: openFds !== null,
    },
    {
      name: 'event loop late',
      value: `${lateMs.toFixed(1)} ms`,
      widest: '999.9 ms',
      isTrouble: lateMs > 200,
    },
    { name: 'busy', value: `${Math.round(tick.busy * 100)}%`, widest: '100%' },
    { name: 'memory', value: bytesForPeople(tick.memory), widest: '999.9 MiB' },
    {
      name: 'workers',
      value: workersText(workers.length, died, hangs),
      isTrouble: died > 0,
      isShown: workers.length > 0,
    },
    {
      name: 'held for slow readers',
      value: bytesForPeople(held),
      widest: '999.9 MiB',
      isShown: held > 0,
    },
    {
      name: 'data plane restarts',
      value: String(restarts),
      isTrouble: true,
      isShown: restarts > 0,
    },
  ]
  return facts.filter(({ isShown = true }) => isShown)
}

const workersText = (all: number, died: number, hangs: number): string =>
  died === 0
    ? String(all)
    : `${all}, ${count(died, 'restart')}${hangs > 0 ? `, ${hangs} for a hang` : ''}`
