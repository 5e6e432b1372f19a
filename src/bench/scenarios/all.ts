import { download } from './download.ts'
import { idleMemory } from './idle-memory.ts'
import { keepAlive } from './keep-alive.ts'
import type { Scenario } from './scenario.ts'
import { shortConnections } from './short-connections.ts'
import { udp } from './udp.ts'
import { upload } from './upload.ts'

export const scenarios: readonly Scenario[] = [
  keepAlive,
  shortConnections,
  download,
  upload,
  udp,
  idleMemory,
]
