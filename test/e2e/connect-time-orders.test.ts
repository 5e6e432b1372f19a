// A process of its own: long, and it mostly waits.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { service } from '../support/manifests.ts'
import { until } from '../support/until.ts'
import { makeStage, skip, sliceAt, whoAnswers } from './connect-time/stage.ts'

t.test(
  'a Service that is paused is the relay`s, which holds its clients',
  { skip },
  async t => {
    const stage = await makeStage(t)
    const { client, manifests } = stage
    const port = await client.serve('127.0.0.11')
    const web = service('web', '10.96.0.1', [{ name: 'p', port: 80 }])
    const other = service('other', '10.96.0.2', [{ name: 'p', port: 80 }])
    const slices = [
      sliceAt('web', ['127.0.0.11'], port),
      sliceAt('other', ['127.0.0.11'], port),
    ]
    await manifests.write(web, other, ...slices)
    const folder = mkdtempSync(join(tmpdir(), 'usher-orders-'))
    t.teardown(() => rmSync(folder, { recursive: true }))
    const socket = join(folder, 'control.sock')
    await stage.lead(t, `--control-socket=${socket}`)
    t.equal(await whoAnswers(client, '10.96.0.1'), '127.0.0.11')
    const order = async (...words: string[]) => {
      const { code, err } = await stage.run(...words, `--control-socket=${socket}`)
      t.equal(code, 0, `${words.join(' ')} ${err}`)
    }
    await order('pause', 'default/web:p')
    // Nothing captures here, so that who is not led goes nowhere.
    t.equal(await whoAnswers(client, '10.96.0.1'), 'ENETUNREACH')
    t.equal(await whoAnswers(client, '10.96.0.2'), '127.0.0.11', 'another one')
    await order('resume', 'default/web:p')
    await until(
      'it is led again',
      async () => (await whoAnswers(client, '10.96.0.1')) === '127.0.0.11',
    )
  },
)
