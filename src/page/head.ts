import { byId, el, setAttribute, setText } from './dom.ts'
import { bytesForPeople, count, forPeople } from './format.ts'
import type { Head, Tick } from './wire.ts'

/** The sentence at the top, and when Usher heard last of the world. `lost`: why there is no news. */
export const showHead = (head: Head, tick: Tick, lost: string): void => {
  const { verdict, why, about, source } = head
  const reasons = why.length === 0 ? '' : `: ${why.join('; ')}`
  const health = byId('health')
  setText(health, lost === '' ? `${verdict}${reasons}. ${about}.` : lost)
  setAttribute(health, 'class', lost !== '' || verdict !== 'Healthy' ? 'trouble' : '')
  const heard =
    source.lastGoodAt === null
      ? `${source.name} not read yet`
      : `${source.name} read ${forPeople(tick.now - source.lastGoodAt)} ago`
  const heardOf = byId('heard')
  setText(
    heardOf,
    source.error === '' ? heard : `${heard}, and not since: ${source.error}`,
  )
  setAttribute(heardOf, 'class', source.error === '' ? '' : 'trouble')
  document.title = `${verdict === 'Healthy' && lost === '' ? '' : '● '}Usher`
}

export const showProblems = ({ problems, problemCount }: Head): void => {
  const section = byId('problems')
  section.hidden = problemCount === 0
  const more = problemCount - problems.length
  const title = count(
    problemCount,
    'thing that cannot be honoured',
    'things that cannot be honoured',
  )
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
  for (const [i, [name, value, isTrouble]] of facts.entries()) {
    const fact = footer.children[i] as HTMLElement
    setText(fact.children[0] as Node, name)
    setText(fact.children[1] as Node, value)
    setAttribute(fact, 'class', isTrouble ? 'trouble' : '')
  }
}

type Fact = readonly [name: string, value: string, isTrouble?: boolean]

const factsOf = (tick: Tick): readonly Fact[] => {
  const { fds, delayMs, workers, openFds, failedListeners, restarts } = tick
  const hangs = workers.reduce((sum, worker) => sum + worker.hangs, 0)
  const died = workers.reduce((sum, worker) => sum + worker.restarts, 0)
  const held = workers.reduce((sum, worker) => sum + worker.heldBytes, 0)
  return [
    ['up', forPeople(tick.now - tick.startedAt)],
    [
      'last sync',
      tick.appliedAt === null
        ? 'none yet'
        : `${forPeople(tick.now - tick.appliedAt)} ago`,
      tick.appliedAt === null,
    ],
    ['listeners failed', String(failedListeners), failedListeners > 0],
    ...(fds.limit > 0
      ? [
          [
            'relay descriptors',
            `${fds.used} of ${fds.limit}`,
            fds.used > 0.8 * fds.limit,
          ] as const,
        ]
      : []),
    ...(tick.acceptPaused
      ? [['accepting', 'paused for want of descriptors', true] as const]
      : []),
    ...(openFds === null ? [] : [['open files', String(openFds)] as const]),
    [
      'event loop late',
      `${delayMs.p99} ms, worst ${delayMs.worst} ms`,
      delayMs.worst > 200,
    ],
    ['busy', `${Math.round(tick.busy * 100)}%`],
    ['memory', bytesForPeople(tick.memory)],
    ...(workers.length === 0
      ? []
      : [['workers', workersText(workers.length, died, hangs), died > 0] as const]),
    ...(held > 0 ? [['held for slow readers', bytesForPeople(held)] as const] : []),
    ...(restarts > 0 ? [['data plane restarts', String(restarts), true] as const] : []),
  ]
}

const workersText = (all: number, died: number, hangs: number): string =>
  died === 0
    ? String(all)
    : `${all}, ${count(died, 'restart')}${hangs > 0 ? `, ${hangs} for a hang` : ''}`
