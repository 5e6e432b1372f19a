import { invalidOptions, noWatchList } from './refusals.ts'
import type { Behaviour } from './options.ts'
import { isTrue } from './target.ts'

/**
 * Throws 422 for parameters that exclude each other, as ValidateListOptions of apimachinery
 * does before anything else is looked at; that of 1.26 and before where the server knows
 * nothing of streaming lists.
 */
export const checkListOptions = (
  query: URLSearchParams,
  { streamingLists }: Behaviour,
): void => {
  // Before 1.19 there was no resourceVersionMatch either.
  if (streamingLists === 'ignored') return
  const faults = isTrue(query.get('watch'))
    ? streamingLists === 'unknown'
      ? watchFaultsOf126(query)
      : watchFaults(query, streamingLists === 'refused')
    : listFaults(query, streamingLists !== 'unknown')
  if (faults.length > 0) throw invalidOptions(faults)
}

const field = 'resourceVersionMatch'
const forbidden = (why: string): string => `${field}: Forbidden: ${field} is ${why}`
const unlessVersion = forbidden('forbidden unless resourceVersion is provided')
const withContinue = forbidden('forbidden when continue is provided')
const quoted = (values: readonly string[]): string =>
  values.map(value => JSON.stringify(value)).join(', ')
const unsupported = (given: string, values: readonly string[]): string =>
  `${field}: Unsupported value: "${given}": supported values: ${quoted(values)}`

interface Given {
  readonly match: string
  readonly version: string
  readonly continued: boolean
  readonly streaming: boolean
}

const given = (query: URLSearchParams): Given => ({
  match: query.get(field) ?? '',
  version: query.get('resourceVersion') ?? '',
  continued: (query.get('continue') ?? '') !== '',
  streaming: query.has('sendInitialEvents'),
})

const matches = ['Exact', 'NotOlderThan']

const listFaults = (query: URLSearchParams, knowsStreaming: boolean): string[] => {
  const { match, version, continued, streaming } = given(query)
  return [
    ...(match !== '' && version === '' ? [unlessVersion] : []),
    ...(match !== '' && continued ? [withContinue] : []),
    ...(match !== '' && !matches.includes(match)
      ? [unsupported(match, [...matches, ''])]
      : []),
    ...(match === 'Exact' && version === '0'
      ? [`${field}: Forbidden: ${field} "exact" is forbidden for resourceVersion "0"`]
      : []),
    ...(streaming && knowsStreaming
      ? ['sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list']
      : []),
  ]
}

const watchFaults = (query: URLSearchParams, refused: boolean): string[] => {
  const { match, continued, streaming } = given(query)
  const wrong = match !== 'NotOlderThan'
  return [
    ...(streaming && wrong
      ? [
          `${field}: Forbidden: sendInitialEvents requires setting ${field} to NotOlderThan`,
        ]
      : []),
    ...(streaming && refused ? [noWatchList] : []),
    ...(match !== '' && !streaming
      ? [forbidden('forbidden for watch unless sendInitialEvents is provided')]
      : []),
    ...(match !== '' && wrong ? [unsupported(match, ['NotOlderThan'])] : []),
    ...(match !== '' && continued ? [withContinue] : []),
  ]
}

/** `sendInitialEvents` is a parameter like any that nobody knows: it is not looked at. */
const watchFaultsOf126 = (query: URLSearchParams): string[] => {
  const { match, version } = given(query)
  if (match === '') return []
  return [forbidden('forbidden for watch'), ...(version === '' ? [unlessVersion] : [])]
}
