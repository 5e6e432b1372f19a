import type { IpFamily } from '../../util/ip.ts'
import { boundClients, type Look } from '../proxier.ts'
import type { Compiled } from './wanted-state.ts'
import { protocolOf, type ServerId, serverPlace, serverText } from './server-id.ts'
import { setName } from './set-names.ts'

/** By what is wanted for one VIP: virtual servers, and entries of the sets whose packets are dropped. */
export const ipvsLooks = (
  family: IpFamily,
  { servers, entries }: Pick<Compiled, 'servers' | 'entries'>,
  affinityMs: number,
): readonly Look[] => [
  ...entries
    .filter(([kind]) => kind.endsWith('-DROP'))
    .map(([kind, entry]) => ({
      what: `set ${setName(family, kind)}, ${entry}: ${kind === 'EXTERNAL-DROP' ? 'clients from outside' : 'clients'} are dropped`,
      command: `ipset test ${setName(family, kind)} ${entry}`,
    })),
  ...servers.flatMap(({ id }) => [
    {
      what: `virtual server ${serverText(id)}, and its real servers`,
      command: `ipvsadm -Ln ${id}`,
    },
    ...(affinityMs > 0 ? [boundLook(id)] : []),
  ]),
]

/** Templates of persistence are listed among connections, with client port 0. */
const boundLook = (id: ServerId): Look => ({
  what: `${boundClients}: persistence of ${serverText(id)}`,
  command: `ipvsadm -Lnc | awk '$1 == "${protocolOf(id)}" && $4 ~ /:0$/ && $5 == "${serverPlace(id)}"'`,
})
