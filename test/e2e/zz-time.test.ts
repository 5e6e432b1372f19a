import t from 'tap'
import { makeStage } from './parts/zz/with-usher.ts'
t.test('x', async t => {
  let a = performance.now()
  const stage = await makeStage(t, { capture: 'local' })
  console.error('stage', performance.now() - a); a = performance.now()
  const u = stage.start()
  await u.ready()
  console.error('ready', performance.now() - a); a = performance.now()
  for (const r of u.records) console.error(r.time, r.msg)
  console.error(JSON.stringify((await u.status()).servicePorts[0], null, 1))
})
