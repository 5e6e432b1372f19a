/** Types of records that can be asked for, by their numbers on the wire (RFC 1035, 2782, 3596). */
export const questionTypes = { A: 1, AAAA: 28, SRV: 33 } as const
export type QuestionType = keyof typeof questionTypes

export interface Question {
  /** Labels of letters, digits, `-` and `_`; a dot at the end may be there. */
  readonly name: string
  readonly type: QuestionType
}

export interface AddressData {
  readonly type: 'A' | 'AAAA'
  readonly address: string
}

export interface CnameData {
  readonly type: 'CNAME'
  readonly target: string
}

export interface SrvData {
  readonly type: 'SRV'
  readonly priority: number
  readonly weight: number
  readonly port: number
  /** '' for the root, by which a name says that the service is not there. */
  readonly target: string
}

export type RecordData = AddressData | CnameData | SrvData

/** A record that Usher has use for. Names are in lower case, without a dot at the end. */
export type DnsRecord = RecordData & {
  readonly name: string
  /** In seconds. */
  readonly ttl: number
}
