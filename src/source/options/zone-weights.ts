import * as v from 'valibot'
import { checkedText } from './option-kinds.ts'

const mostWeight = 256

/** `a=3,b=1`; undefined where the text is none, or has a zone twice. */
export const readZoneWeights = (
  text: string,
): Readonly<Record<string, number>> | undefined => {
  const weights = new Map<string, number>()
  for (const part of text.split(',')) {
    // A label's value (Kubernetes, "Labels and Selectors").
    const [, zone = '', weight] = /^([\w.-]{1,63})=(\d{1,3})$/.exec(part.trim()) ?? []
    if (zone === '' || Number(weight) > mostWeight || weights.has(zone)) return undefined
    weights.set(zone, Number(weight))
  }
  return Object.fromEntries(weights)
}

/** Of Services alone: endpoints of routes have no zone. */
export const zoneWeights = v.pipe(
  checkedText(
    given => readZoneWeights(given) !== undefined,
    'zones with weights from 0 to 256, each once, like eu-1a=3,eu-1b=1',
    String.raw`^[\w.-]+=\d+(,[\w.-]+=\d+)*$`,
    'eu-1a=3,eu-1b=1',
  ),
)
