import type { OptionsOf } from '../config/options.ts'
import { UsageError } from '../config/usage-error.ts'
import type { AnswerOf } from '../observe/control-protocol.ts'
import { familyOf, splitHostPort } from '../util/ip.ts'
import { isUnix, unixPeer } from '../util/unix-address.ts'
import { askCommand, orSayWhyNot } from './ask-usher.ts'
import { aligned, columnWidths } from './columns.ts'
import { jsonText, yamlText } from './document-text.ts'
import { endpointRow, endpointsTable, wouldGet } from './explain-words.ts'
import { apiVersion } from './json-documents.ts'
import type { Io } from './io.ts'
import { forPeople, servedText, visible } from './words.ts'

type Explained = AnswerOf<'explain'>

/** `usher explain`: 0 when the client would be forwarded, 1 when not; 3 when no Usher answers. */
export const explain = (options: OptionsOf<'explain'>, io: Io): Promise<number> => {
  const { dialled, protocol, output } = options
  const [client, address] = asked(dialled)
  return orSayWhyNot('explain', io, async () => {
    const answer = await askCommand(options, 'explain', { client, address, protocol })
    const document = { apiVersion, kind: 'Explanation', ...answer }
    if (output === 'json') io.out(`${jsonText(document, 2)}\n`)
    else if (output === 'yaml') io.out(await yamlText(document))
    else print(answer, io)
    return answer.verdict.action === 'forward' ? 0 : 1
  })
}

/** Who dials a unix socket has no address, and need not be told. */
const asked = (
  dialled: readonly string[],
): readonly [client: string, address: string] => {
  const [socket = ''] = dialled
  const [client, address, ...others] =
    dialled.length === 1 && isUnix(socket) ? [unixPeer, socket] : dialled
  if (client === undefined || address === undefined || others.length > 0)
    throw wrongCall('two arguments are wanted')
  if (familyOf(client) === undefined && client !== unixPeer)
    throw wrongCall(`${JSON.stringify(client)} is no IP address`)
  if (!isUnix(address) && splitHostPort(address) === undefined)
    throw wrongCall(`${JSON.stringify(address)} is no address with a port`)
  return [client, address]
}

const wrongCall = (why: string): UsageError =>
  new UsageError(
    `${why}; give the address of a client, and the address and port that it dials, like usher explain 10.0.3.7 10.96.0.10:80`,
    'explain',
  )

const print = (answer: Explained, io: Io): void => {
  const { client, address, protocol, route, addressKind, verdict } = answer
  const { affinityMs, looks, notes } = answer
  const rows = [
    ['verdict', `${verdict.action}: ${verdict.why}`],
    ['served', servedText({ ...answer, kind: addressKind })],
    ['affinity', affinityMs === 0 ? 'none' : `ClientIP, ${forPeople(affinityMs)}`],
    ...wouldGet(answer).map((line, i) => [i === 0 ? 'would get' : '', line]),
    ...notes.map(note => ['note', note]),
  ]
  io.out(
    `${visible(`${client} -> ${address} (${protocol}) is ${route}, ${addressKind}`)}\n`,
  )
  for (const [name = '', text = ''] of rows)
    io.out(`${name.padEnd(11)}${visible(text)}\n`)
  const table = [
    endpointsTable,
    ...answer.endpoints.map(one => endpointRow(one, answer, Date.now())),
  ]
  if (answer.endpoints.length === 0) io.out('It has no endpoints.\n')
  else
    for (const row of table)
      io.out(`${aligned(row, columnWidths(table), '', io.colour)}\n`)
  for (const { what, command } of looks)
    io.out(`${visible(what)}\n  ${visible(command)}\n`)
}
