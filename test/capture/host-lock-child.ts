import { SocketLock } from '../../src/kernel/keeper/host-lock.ts'
import { systemClock } from '../../src/util/clock.ts'

/** Takes the lock, says so, and holds it until it is told to let go or is killed. */
const [self = ''] = process.argv.slice(2)
const say = (text: string): void => {
  process.stdout.write(`${text}\n`)
}
const lock = new SocketLock({
  clock: systemClock,
  self,
  waiting: holder => say(`waiting for ${holder}`),
})
process.stdin.once('data', () => {
  void lock.release().then(() => {
    say('released')
    process.exit()
  })
})
say((await lock.acquire()) ? 'held' : 'given up')
