// A process of its own: long, and it mostly waits.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { startApiServer } from '../support/api-server/for-test.ts'
import { kubernetes, noKustomize, top } from '../support/deploy.ts'

t.test('kubectl', async t => {
  // kubectl asks a server which kinds there are, even for a dry run by the client.
  t.test('kubectl takes the overlays', { skip: noKustomize }, async t => {
    const server = await startApiServer(t)
    const flags = [
      `--kubeconfig=${server.kubeconfig()}`,
      `--cache-dir=${t.testdir({})}`,
      '--dry-run=client',
      '--validate=false',
    ]
    for (const overlay of ['every-node', 'replace-kube-proxy']) {
      const path = `${kubernetes}/overlays/${overlay}`
      const { stdout } = await promisify(execFile)(
        'kubectl',
        ['create', '-k', path, ...flags],
        { cwd: top, timeout: 30_000 },
      )
      const lines = stdout.trim().split('\n')
      const created = lines.map(line => line.replace(/-\w{10} /, ' ')).toSorted()
      t.strictSame(created, [
        'clusterrole.rbac.authorization.k8s.io/usher created (dry run)',
        'clusterrolebinding.rbac.authorization.k8s.io/usher created (dry run)',
        'configmap/usher-cluster created (dry run)',
        'configmap/usher-config created (dry run)',
        'daemonset.apps/usher created (dry run)',
        'serviceaccount/usher created (dry run)',
      ])
    }
    const { stdout } = await promisify(execFile)(
      'kubectl',
      ['create', '-f', `${kubernetes}/cleanup.yaml`, ...flags],
      { cwd: top, timeout: 30_000 },
    )
    t.match(stdout, /^pod\/usher-cleanup created \(dry run\)$/m)
    t.strictSame(server.objects('daemonsets'), [], 'and makes nothing')
  })
})
