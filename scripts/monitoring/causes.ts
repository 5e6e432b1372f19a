import type { Cause } from '../../src/relay/cause.ts'

/**
 * What the end of a connection says of the Service: no endpoint was reached, or one broke
 * off. All else is the client's doing, or ordered by configuration or an operator.
 */
type Verdict = 'unserved' | 'broken off' | 'not a fault'

const verdicts: Readonly<Record<Cause, Verdict>> = {
  '--': 'not a fault',
  CC: 'not a fault',
  SC: 'unserved',
  sC: 'unserved',
  sQ: 'unserved',
  RC: 'unserved',
  PR: 'not a fault',
  PL: 'not a fault',
  PH: 'not a fault',
  PN: 'not a fault',
  PO: 'unserved',
  CD: 'not a fault',
  SD: 'broken off',
  cD: 'not a fault',
  sD: 'not a fault',
  DD: 'not a fault',
  LD: 'not a fault',
  KD: 'not a fault',
}

/** A regular expression for the label `cause`. */
const causesThatAre = (...wanted: readonly Verdict[]): string =>
  Object.entries(verdicts)
    .filter(([, verdict]) => wanted.includes(verdict))
    .map(([cause]) => cause)
    .join('|')

export const unserved = causesThatAre('unserved')
export const serviceFaults = causesThatAre('unserved', 'broken off')
