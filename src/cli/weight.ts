import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import { type AnswerOf, heaviest } from '../observe/control-protocol.ts'
import { tell } from './tell.ts'
import { routesOf } from './drain.ts'
import type { Io } from './io.ts'
import { sayOutcomes } from './outcomes.ts'

type Outcome = AnswerOf<'weight'>['endpoints'][number]

/** `usher weight`: 0 when the endpoint has the weight in all routes that are meant, 1 when not. */
export const weight = async (options: OptionsOf<'weight'>, io: Io): Promise<number> => {
  const { endpoint: given, route, reset, controlSocket: path } = options
  const { endpoint, wanted } = readWeight(given, reset)
  const order = { endpoints: [endpoint], ...routesOf(route), weight: wanted }
  return tell({ command: 'weight', path }, 'weight', order, io, answer =>
    sayOutcomes('weight', answer.endpoints, answer.notes, io, {
      isWanted: one =>
        wanted === null
          ? one.since === null
          : one.since !== null && one.weight === wanted,
      words,
      undone: one => `${words(one)}: someone has changed it meanwhile, or it is gone`,
    }),
  )
}

const wrong = (why: string): UsageError => new UsageError(why, 'weight')

/** `ENDPOINT N`, or `ENDPOINT` alone. Throws UsageError. */
const readWeight = (
  [endpoint = '', given, ...more]: readonly string[],
  reset: boolean,
): { readonly endpoint: string; readonly wanted: number | null } => {
  if (more.length > 0)
    throw wrong(
      `${JSON.stringify(more[0])} is one argument too many; give ENDPOINT and N`,
    )
  if (given === undefined) return { endpoint, wanted: null }
  if (reset) throw wrong('give either a weight or --reset')
  const wanted = /^\d{1,3}$/.test(given) ? Number(given) : Number.NaN
  if (!(wanted <= heaviest))
    throw wrong(
      `${JSON.stringify(given)} is not a weight; give a whole number from 0 to ${heaviest}`,
    )
  return { endpoint, wanted }
}

const words = ({ route, endpoint, was, weight: now, since }: Outcome): string => {
  const whose = since === null ? ', as its source says' : ''
  return `${endpoint} of ${route}: weight ${now}${whose}${was === now ? '' : `, was ${was}`}`
}
