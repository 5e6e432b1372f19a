// A data plane that ends at once, and leaves its end of the channel to a child of its own, by
// which it is heard after its death, as one is of which the last messages are read late. Says
// them when there is a file of the name in GO.
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

const bind = { address: '192.0.2.1', port: 1 }
const news = {
  states: [
    { kind: 'bind', listener: 'a', state: { bind, state: 'listening' } },
    { kind: 'accept-paused', paused: true, used: 1, limit: 1 },
    { kind: 'hung', thread: 1, hung: true },
  ],
  records: [],
  faults: [['', new Error('its last words')]],
  accessLines: [],
  lost: 0,
}

if (process.env.LATE === undefined) {
  const env = {
    ...process.env,
    LATE: 'yes',
    NODE_CHANNEL_FD: '3',
    NODE_CHANNEL_SERIALIZATION_MODE: 'advanced',
  }
  const file = fileURLToPath(import.meta.url)
  // Its fourth descriptor, 3, is the channel.
  spawn(process.execPath, [file], { env, stdio: ['ignore', 'inherit', 'inherit', 3] })
  process.exit()
}
for (let i = 0; i < 2000 && !existsSync(process.env.GO); i += 1) await sleep(5)
process.send({ kind: 'news', news }, () => process.disconnect())
