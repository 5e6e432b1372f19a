import { writeFile, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  adminConfig,
  type Cluster,
  controlAddresses,
  nodeAddresses,
  nodeNames,
  podsCidrs,
  serviceCidrs,
} from './cluster.ts'
import { program } from './programs.ts'
import { output, startDaemon, succeeds } from './run-command.ts'
import { until } from '../support/until.ts'

/** Certificates of all, and kubeconfigs of those that are clients. */
export const makeCertificates = async ({ pki }: Cluster): Promise<void> => {
  const openssl = (...args: readonly string[]) =>
    output(['openssl', ...args], { cwd: pki })
  await openssl('genrsa', '-out', 'ca.key', '2048')
  await openssl(
    'req',
    '-x509',
    '-new',
    '-key',
    'ca.key',
    '-subj',
    '/CN=kubernetes',
    '-days',
    '30',
    '-out',
    'ca.crt',
  )
  await openssl('genrsa', '-out', 'sa.key', '2048')
  await openssl('rsa', '-in', 'sa.key', '-pubout', '-out', 'sa.pub')
  const certificate = async (
    name: string,
    subject: string,
    hosts = '',
  ): Promise<void> => {
    await openssl('genrsa', '-out', `${name}.key`, '2048')
    await openssl(
      'req',
      '-new',
      '-key',
      `${name}.key`,
      '-subj',
      subject,
      '-out',
      `${name}.csr`,
    )
    const names = hosts === '' ? '' : `subjectAltName=${hosts}\n`
    const extensions = `extendedKeyUsage=clientAuth,serverAuth\n${names}`
    await writeFile(join(pki, `${name}.ext`), extensions)
    await openssl(
      'x509',
      '-req',
      '-in',
      `${name}.csr`,
      '-CA',
      'ca.crt',
      '-CAkey',
      'ca.key',
      '-CAcreateserial',
      '-days',
      '30',
      '-extfile',
      `${name}.ext`,
      '-out',
      `${name}.crt`,
    )
  }
  const { ipv4, ipv6 } = controlAddresses
  const services = ['', '.default', '.default.svc', '.default.svc.cluster.local']
  await certificate(
    'apiserver',
    '/CN=kube-apiserver',
    [
      ...services.map(one => `DNS:kubernetes${one}`),
      ...['127.0.0.1', '10.96.0.1', 'fd00:96::1', ipv4, ipv6].map(one => `IP:${one}`),
    ].join(),
  )
  await certificate(
    'kubelet-client',
    '/O=system:masters/CN=kube-apiserver-kubelet-client',
  )
  await certificate('front-proxy', '/CN=front-proxy-client')
  for (const name of nodeNames) {
    const own = nodeAddresses(name)
    const hosts = `DNS:${name},IP:${own.ipv4},IP:${own.ipv6}`
    await certificate(name, `/O=system:nodes/CN=system:node:${name}`, hosts)
    await writeKubeconfig(pki, name)
  }
  for (const [name, subject] of [
    ['admin', '/O=system:masters/CN=kubernetes-admin'],
    ['kube-controller-manager', '/CN=system:kube-controller-manager'],
    ['kube-scheduler', '/CN=system:kube-scheduler'],
    ['proxy', '/CN=system:kube-proxy'],
  ] as const) {
    await certificate(name, subject)
    await writeKubeconfig(pki, name)
  }
}

const writeKubeconfig = async (pki: string, name: string): Promise<void> => {
  const base64 = async (file: string): Promise<string> =>
    (await readFile(join(pki, file))).toString('base64')
  const cluster = {
    server: `https://${controlAddresses.ipv4}:6443`,
    'certificate-authority-data': await base64('ca.crt'),
  }
  const user = {
    'client-certificate-data': await base64(`${name}.crt`),
    'client-key-data': await base64(`${name}.key`),
  }
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'cluster', cluster }],
    users: [{ name: 'user', user }],
    contexts: [{ name: 'context', context: { cluster: 'cluster', user: 'user' } }],
    'current-context': 'context',
  }
  await writeFile(join(pki, `${name}.conf`), JSON.stringify(config))
}

const startControl = (
  { state, daemons }: Cluster,
  name: string,
  ...args: readonly string[]
): void => {
  const log = join(state, 'log', `${name}.log`)
  daemons.set(name, startDaemon([program(name), ...args], log))
}

/** etcd, API server, controllers and scheduler; resolves when the API server is ready. */
export const startControlPlane = async (cluster: Cluster): Promise<void> => {
  const { state, pki } = cluster
  startControl(
    cluster,
    'etcd',
    '--data-dir',
    join(state, 'etcd'),
    '--unsafe-no-fsync',
    '--log-level',
    'warn',
  )
  await startApiServer(cluster)
  const asClient = (name: string): readonly string[] => {
    const file = join(pki, `${name}.conf`)
    return [
      `--kubeconfig=${file}`,
      `--authentication-kubeconfig=${file}`,
      `--authorization-kubeconfig=${file}`,
      '--leader-elect=false',
    ]
  }
  startControl(
    cluster,
    'kube-controller-manager',
    ...asClient('kube-controller-manager'),
    '--allocate-node-cidrs',
    `--cluster-cidr=${podsCidrs}`,
    `--service-cluster-ip-range=${serviceCidrs}`,
    `--service-account-private-key-file=${join(pki, 'sa.key')}`,
    `--root-ca-file=${join(pki, 'ca.crt')}`,
    `--cluster-signing-cert-file=${join(pki, 'ca.crt')}`,
    `--cluster-signing-key-file=${join(pki, 'ca.key')}`,
    '--use-service-account-credentials',
  )
  startControl(cluster, 'kube-scheduler', ...asClient('kube-scheduler'))
}

/** Who asked for what, of requests by Usher's account: what it is granted can be compared with. */
export const auditLog = ({ state }: Cluster): string => join(state, 'log', 'audit.log')

const auditPolicy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [
    { level: 'Metadata', users: ['system:serviceaccount:kube-system:usher'] },
    { level: 'None' },
  ],
}

export const startApiServer = async (cluster: Cluster): Promise<void> => {
  const { pki, state } = cluster
  const policy = join(state, 'audit-policy.json')
  await writeFile(policy, JSON.stringify(auditPolicy))
  const at = (file: string): string => join(pki, file)
  startControl(
    cluster,
    'kube-apiserver',
    `--advertise-address=${controlAddresses.ipv4}`,
    '--etcd-servers=http://127.0.0.1:2379',
    `--service-cluster-ip-range=${serviceCidrs}`,
    '--secure-port=6443',
    '--authorization-mode=Node,RBAC',
    '--enable-admission-plugins=NodeRestriction',
    '--allow-privileged=true',
    `--client-ca-file=${at('ca.crt')}`,
    `--tls-cert-file=${at('apiserver.crt')}`,
    `--tls-private-key-file=${at('apiserver.key')}`,
    `--kubelet-client-certificate=${at('kubelet-client.crt')}`,
    `--kubelet-client-key=${at('kubelet-client.key')}`,
    '--kubelet-preferred-address-types=InternalIP',
    '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
    `--service-account-key-file=${at('sa.pub')}`,
    `--service-account-signing-key-file=${at('sa.key')}`,
    `--requestheader-client-ca-file=${at('ca.crt')}`,
    '--requestheader-allowed-names=front-proxy-client',
    '--requestheader-username-headers=X-Remote-User',
    '--requestheader-group-headers=X-Remote-Group',
    '--requestheader-extra-headers-prefix=X-Remote-Extra-',
    `--proxy-client-cert-file=${at('front-proxy.crt')}`,
    `--proxy-client-key-file=${at('front-proxy.key')}`,
    '--profiling=false',
    `--audit-policy-file=${policy}`,
    `--audit-log-path=${auditLog(cluster)}`,
  )
  await until(
    'the API server is ready',
    () =>
      succeeds([
        program('kubectl'),
        `--kubeconfig=${adminConfig(cluster)}`,
        'get',
        '--raw',
        '/readyz',
      ]),
    120_000,
  )
}
