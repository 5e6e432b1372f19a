// A process of its own: it mostly waits.
import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { isCommand } from '../../src/config/commands.ts'
import { acceptedBy } from '../../src/config/options.ts'
import { endpoint, serviceObject, sliceObject } from '../support/api-server/builders.ts'
import { startApiServer } from '../support/api-server/for-test.ts'
import { kubernetes } from '../support/deploy.ts'
import { loopbackUsher, usherProgram } from '../support/usher-program.ts'
import { missingPrograms } from '../support/installed.ts'
import { pageOf, walkPage, walkProblem } from './walk-page.ts'

// What a reader does by these pages is done, and what they say that he sees is seen.
t.jobs = 3
const usePages = ['replace-kube-proxy.md', 'sidecar.md', 'performance.md']
const [swap = '', withoutNetfilter = ''] = pageOf('replace-kube-proxy.md').split(
  '\n## A node without netfilter\n',
)
const skip = walkProblem || missingPrograms('unshare', 'ip', 'curl')

t.test('a sidecar in front of a database', { skip }, async t => {
  await walkPage(t, pageOf('sidecar.md'), { usher: [usherProgram] })
})

t.test('a node without netfilter', { skip }, async t => {
  await walkPage(t, withoutNetfilter, { usher: [usherProgram] })
})

t.test('in place of kube-proxy', { skip }, async t => {
  const server = await startApiServer(t)
  server.apply(
    serviceObject('web', '10.96.0.40', {
      spec: { ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 8080 }] },
    }),
  )
  const ports = [{ name: 'http', protocol: 'TCP', port: 8080 }]
  const pods = ['10.244.1.7', '10.244.2.4'].map(address => endpoint(address))
  server.apply(sliceObject('web', 'web-1', pods, { ports }))
  const config = readFileSync(`${kubernetes}/base/config.yaml`, 'utf8')
  const files = {
    'config.conf': config,
    kubeconfig: readFileSync(server.kubeconfig(), 'utf8'),
  }
  await walkPage(t, swap, { usher: [loopbackUsher], files, sharesNetwork: true })
})

t.test('userspace against kernel modes', { skip }, async t => {
  await walkPage(t, pageOf('performance.md'), { usher: [usherProgram] })
})

t.test('what the pages name is there', t => {
  for (const name of usePages) {
    const page = pageOf(name)
    for (const [, path = ''] of page.matchAll(/-k (\S+)/g))
      t.ok(existsSync(`${kubernetes}/${path}/kustomization.yaml`), path)
    for (const [, command = '', flags = ''] of page.matchAll(
      /\busher (run|check|sidecar|bench|pause) ([^`\n&]*)/g,
    ))
      for (const [, flag = ''] of flags.matchAll(/--([a-z-]+)/g))
        t.ok(
          isCommand(command) && acceptedBy(command).some(([known]) => known === flag),
          `${name}: usher ${command} --${flag}`,
        )
  }
  t.end()
})
