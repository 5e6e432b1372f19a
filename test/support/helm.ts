import { execFile, execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'
import { Built, type KubeObject, parseYaml, top } from './deploy.ts'
import { isInstalled } from './installed.ts'

const chart = 'deploy/helm/usher'

/** The one on the PATH, else that which `scripts/test-packages.sh` unpacked. */
const program = isInstalled('helm')
  ? 'helm'
  : execFileSync(`${top}scripts/test-packages.sh`, ['--helm'], {
      encoding: 'utf8',
    }).trim()

/** Why the chart can't be rendered here; false where it can. */
export const noHelm: string | false =
  program === 'helm' || existsSync(program) ? false : 'helm is not installed'

export const isHelm3 = (): boolean =>
  execFileSync(program, ['version', '--short'], { encoding: 'utf8' }).startsWith('v3')

/** The chart's values, as `--set-json` takes them. */
export type Values = Readonly<Record<string, unknown>>

const needed: Values = { apiServer: { host: '192.0.2.10' } }

const flags = (values: Values): string[] =>
  Object.entries(values).map(
    ([name, value]) => `--set-json=${name}=${JSON.stringify(value)}`,
  )

const helm = async (...args: readonly string[]): Promise<string> => {
  const { stdout } = await promisify(execFile)(program, args, {
    cwd: top,
    timeout: 60_000,
  })
  return stdout
}

/** What `helm lint --strict` says. Rejects when it finds anything. */
export const lint = (values: Values): Promise<string> =>
  helm('lint', '--strict', chart, ...flags(values))

/** What the chart makes of values, by `helm template`; `which`: all but what an uninstall makes. */
export const render = async (
  values: Values,
  release = 'usher',
  which: readonly string[] = ['--no-hooks'],
): Promise<Built> => {
  const settings = ['--namespace=kube-system', ...flags({ ...needed, ...values })]
  const text = await helm('template', release, chart, ...settings, ...which)
  return new Built(parseYaml(text, chart) as KubeObject[])
}

/** What helm says once it has installed the chart. Nothing is installed. */
export const notes = async (kubeconfig: string, values: Values): Promise<string> => {
  const how = [
    `--kubeconfig=${kubeconfig}`,
    '--namespace=kube-system',
    '--dry-run=client',
    ...flags({ ...needed, ...values }),
  ]
  const text = await helm('install', 'usher', chart, ...how)
  return text.split('\nNOTES:\n')[1] ?? ''
}

/** Why helm does not take values: the last words of what it says. */
export const refusal = async (values: Values): Promise<string> => {
  try {
    await render(values)
  } catch (error) {
    return (error as { readonly stderr: string }).stderr
  }
  return ''
}
