import { stringify } from 'yaml'
import type { KubeProxyConfiguration } from './shape.ts'

/**
 * The configuration as a file, keys in alphabetical order as kube-proxy writes them. What
 * YAML 1.1 would take for something else than text is quoted: other tools read it so.
 */
export const configurationYaml = (configuration: KubeProxyConfiguration): string =>
  stringify(configuration, {
    version: '1.1',
    sortMapEntries: true,
    indentSeq: false,
    lineWidth: 0,
    aliasDuplicateObjects: false,
  })
