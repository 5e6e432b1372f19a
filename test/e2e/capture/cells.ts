import type { HostName } from '../../support/net/addresses.ts'
import type { Agent } from '../../support/net/agent.ts'
import type { Destination, Outcome } from '../../support/net/outcome.ts'
import { inParallel } from '../../support/net/in-parallel.ts'
import { families, protocols } from './objects.ts'
import { expected, fault } from './oracle.ts'
import type { Cell, Manner } from './oracle-terms.ts'
import { services, type TestService } from './services.ts'
import { vipNames, vipOf } from './vips.ts'

/** A cell that was tried; `fault` says in words what was wrong. */
export interface TriedCell {
  readonly cell: Cell
  readonly outcome: Outcome
  readonly fault: string | undefined
}

const clients: readonly HostName[] = ['node', 'pod-1', 'pod-2', 'outside']

/** Who dials a Service: the loner itself, so that it comes back to where it came from. */
const clientsOf = ({ name }: TestService): readonly HostName[] =>
  name === 'loner' ? ['backend-1'] : clients

const makesSense = ({ service, vip, from }: Cell): boolean => {
  if (vip === 'node port, loopback') return from === 'node'
  // One Service is enough for what is not a Service's.
  return vip !== 'unknown port' || service.name === 'plain'
}

/** Service (its policy) x kind of VIP x client x family x protocol. */
export const matrix: readonly Cell[] = services
  .flatMap(service =>
    vipNames.flatMap(vip =>
      clientsOf(service).flatMap(from =>
        families.flatMap(family =>
          protocols.map(protocol => ({ service, vip, from, family, protocol })),
        ),
      ),
    ),
  )
  .filter(makesSense)

const destination = ({ service, vip, family, protocol }: Cell): Destination => ({
  protocol,
  ...vipOf[vip](service, family),
})

/** For how long clients wait, milliseconds. */
export interface Patience {
  /** Answers may take their time on a busy machine. */
  readonly forAnswersMs: number
  /** Who waits for silence waits in vain. */
  readonly forSilenceMs: number
}

const patience: Patience = { forAnswersMs: 5000, forSilenceMs: 400 }

const answersAtOnce = 64
const silencesAtOnce = 512

/** Who can dial from each host. */
export type Dialers = Readonly<Record<HostName, Pick<Agent, 'dial'>>>

/** Those that must be met with silence go last, together. */
export const tryCells = async (
  cells: readonly Cell[],
  agents: Dialers,
  manner: Manner,
  { forAnswersMs, forSilenceMs } = patience,
): Promise<TriedCell[]> => {
  const silent = (cell: Cell): boolean => expected(cell, manner).result === 'timeout'
  const tryWithin =
    (timeoutMs: number) =>
    async (cell: Cell): Promise<TriedCell> => {
      const outcome = await agents[cell.from].dial(destination(cell), timeoutMs)
      return { cell, outcome, fault: fault(cell, manner, outcome) }
    }
  const spoken = cells.filter(cell => !silent(cell))
  return [
    ...(await inParallel(answersAtOnce, spoken, tryWithin(forAnswersMs))),
    ...(await inParallel(silencesAtOnce, cells.filter(silent), tryWithin(forSilenceMs))),
  ]
}
