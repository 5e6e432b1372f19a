import t from 'tap'
import { startMachine } from './machine.ts'
import { makeNetwork } from './parts/network.ts'
import { reachesAll } from './parts/reach.ts'
import { manifests } from './parts/services.ts'
import { askUsher, runUsher } from './parts/usher.ts'
t.test('x', async t => {
  let a = performance.now()
  const m = await startMachine(t)
  const lap = (s: string) => { console.error(s, Math.round(performance.now() - a)); a = performance.now() }
  lap('boot')
  const hosts = await makeNetwork(m)
  lap('network')
  console.error(await askUsher(m, 'check'))
  lap('check')
  const usher = await runUsher(m, manifests(), 'auto')
  lap('usher')
  console.error((await usher.log()).text)
  console.error(await m.run('ip', 'route', 'show', 'table', 'local'), await m.run('ip', 'a'))
  lap('see')
  await reachesAll(t, hosts)
  lap('reach')
  console.error((await askUsher(m, 'status')).out)
  lap('status')
  console.error((await usher.end()))
  lap('end')
  console.error(await m.run('ip', 'route', 'show', 'table', 'local'), await m.run('ip', 'a'))
})
