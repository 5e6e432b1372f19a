/** What happens to one alert, minute by minute. */
export interface RuleCase {
  readonly alert: string
  readonly what: string
  /** Series and their values, in the notation of promtool. */
  readonly series: Readonly<Record<string, string>>
  /** Minutes at which it fires, and at which it does not. */
  readonly fires?: readonly number[]
  readonly quiet?: readonly number[]
}

const usher = 'job="kube-proxy", instance="a:10249"'
const another = 'job="kube-proxy", instance="b:10249"'
const web = `${usher}, service_port="default/web:http", protocol="TCP"`
const webElsewhere = `${another}, service_port="default/web:http", protocol="TCP"`
const up = `up{${usher}, container="usher"}`

const accepted = `usher_connections_accepted_total{${web}}`
const failed = (cause: string): string =>
  `usher_connections_failed_total{${web}, cause="${cause}"}`
const endpointUp = `usher_endpoint_up{${web}, endpoint="192.0.2.1:80"}`
const dials = (kind: string): string => `usher_dial_${kind}_total{${web}}`

/** Counters grow each minute by what is after the plus. */
export const ruleCases: readonly RuleCase[] = [
  {
    alert: 'UsherDown',
    what: 'one does not answer',
    series: { [up]: '1x4 0x30', [`up{${another}, container="usher"}`]: '1x40' },
    quiet: [4, 18],
    fires: [22],
  },
  {
    alert: 'UsherDown',
    what: 'there is none',
    series: { 'up{job="kube-proxy", container="kube-proxy"}': '1x30' },
    quiet: [10],
    fires: [16],
  },
  {
    alert: 'UsherDown',
    what: 'one was restarted, others are down',
    series: {
      [up]: '1x5 0x8 1x30',
      'up{job="kube-proxy", instance="c:10249", container="kube-proxy"}': '0x40',
    },
    quiet: [5, 13, 20, 40],
  },
  {
    alert: 'UsherNotSynced',
    what: 'the API server is silent',
    series: {
      [`usher_source_ok{${usher}}`]: '1x30',
      [`usher_source_age_seconds{${usher}}`]: '0+60x30',
    },
    quiet: [5, 10],
    fires: [12],
  },
  {
    alert: 'UsherNotSynced',
    what: 'all are heard of now and then',
    series: {
      [`usher_source_ok{${usher}}`]: '1x30',
      [`usher_source_age_seconds{${usher}}`]: '0+60x4 0+60x4 0+60x4 0+60x4 0+60x4 0+60x4',
      [`usher_source_age_seconds{${another}}`]: '2x30',
    },
    quiet: [30],
  },
  {
    alert: 'UsherNotSynced',
    what: 'files cannot be read',
    series: { [`usher_source_ok{${usher}}`]: '1x5 0x20' },
    quiet: [9],
    fires: [12],
  },
  {
    alert: 'UsherServiceFailing',
    what: 'a tenth of the connections on two nodes reach nothing',
    series: {
      [accepted]: '0+300x40',
      [failed('SC')]: '0+20x40',
      [failed('SD')]: '0+10x40',
      [`usher_connections_accepted_total{${webElsewhere}}`]: '0+300x40',
      [`usher_connections_failed_total{${webElsewhere}, cause="sC"}`]: '0+30x40',
    },
    quiet: [8],
    fires: [15, 40],
  },
  {
    alert: 'UsherServiceFailing',
    what: 'clients leave, or are turned away',
    series: {
      [accepted]: '0+300x40',
      [failed('CC')]: '0+100x40',
      [failed('CD')]: '0+100x40',
      [failed('PR')]: '0+100x40',
    },
    quiet: [15, 40],
  },
  {
    alert: 'UsherServiceFailing',
    what: 'few of many',
    series: { [accepted]: '0+3000x40', [failed('SC')]: '0+60x40' },
    quiet: [40],
  },
  {
    alert: 'UsherServiceFailing',
    what: 'one a minute, of two',
    series: { [accepted]: '0+2x40', [failed('SC')]: '0+1x40' },
    quiet: [40],
  },
  {
    alert: 'UsherDialsRetried',
    what: 'one of three',
    series: { [dials('attempts')]: '0+90x40', [dials('retries')]: '0+30x40' },
    quiet: [14],
    fires: [20],
  },
  {
    alert: 'UsherDialsRetried',
    what: 'one of nine',
    series: { [dials('attempts')]: '0+90x40', [dials('retries')]: '0+10x40' },
    quiet: [40],
  },
  {
    alert: 'UsherDialsRetried',
    what: 'one a minute, of two',
    series: { [dials('attempts')]: '0+2x40', [dials('retries')]: '0+1x40' },
    quiet: [40],
  },
  {
    alert: 'UsherEndpointFlapping',
    what: 'up and down',
    series: { [endpointUp]: `${'1x1 0x1 '.repeat(10)}1x30` },
    quiet: [8],
    fires: [22],
  },
  {
    alert: 'UsherEndpointFlapping',
    what: 'down once, and up',
    series: { [endpointUp]: '1x5 0x5 1x30' },
    quiet: [10, 30],
  },
  {
    alert: 'UsherWorkerRestarts',
    what: 'one of two died',
    series: {
      [`usher_relay_worker_restarts_total{${usher}, worker="1"}`]: '3x100',
      [`usher_relay_worker_restarts_total{${usher}, worker="2"}`]: '0x9 1x90',
    },
    quiet: [8, 75],
    fires: [12, 60],
  },
  {
    alert: 'UsherDataPlaneRestarts',
    what: 'it died, and long ago',
    series: { [`usher_data_plane_restarts_total{${usher}}`]: '2x9 3x90' },
    quiet: [8, 75],
    fires: [12, 60],
  },
  {
    alert: 'UsherRulesRepaired',
    what: 'of two families and connect-time steering',
    series: {
      [`usher_capture_repairs_total{${usher}, ip_family="IPv4", result="ok"}`]:
        '0+1x3 3x90',
      [`usher_capture_repairs_total{${usher}, ip_family="IPv6", result="failed"}`]:
        '0+1x3 3x90',
      [`usher_connect_time_repairs_total{${usher}}`]: '7x90',
    },
    quiet: [1, 90],
    fires: [6, 50],
  },
  {
    alert: 'UsherRulesRepaired',
    what: 'three times, on two nodes each',
    series: {
      [`usher_kernel_repairs_total{${usher}, ip_family="IPv4"}`]: '0x60 1x2 2x2 3x60',
      [`usher_kernel_repairs_total{${another}, ip_family="IPv4"}`]: '0x60 1x2 2x2 3x60',
    },
    quiet: [70, 100],
  },
  {
    alert: 'UsherDescriptors',
    what: 'more than four fifths',
    series: {
      [`usher_fds_used{${usher}}`]: '700x10 850x30',
      [`usher_fds_limit{${usher}}`]: '1000x40',
      [`usher_fds_used{${another}}`]: '850x40',
      [`usher_fds_limit{${another}}`]: '2000x40',
    },
    quiet: [10, 24],
    fires: [27],
  },
  {
    alert: 'UsherErrorBudgetBurnsFast',
    what: 'three in a hundred for an hour',
    series: { [accepted]: '0+1000x90', [failed('SC')]: '0+30x90' },
    fires: [70, 90],
  },
  {
    alert: 'UsherErrorBudgetBurnsFast',
    what: 'it was, and is over',
    series: { [accepted]: '0+1000x120', [failed('SC')]: '0+30x60 1800x60' },
    fires: [60],
    quiet: [72, 120],
  },
  {
    alert: 'UsherErrorBudgetBurnsFast',
    what: 'for some minutes only',
    series: { [accepted]: '0+1000x120', [failed('sQ')]: '0x80 0+30x8 240x30' },
    quiet: [85, 88, 120],
  },
  {
    alert: 'UsherErrorBudgetBurns',
    what: 'one in a hundred, since it is scraped',
    series: { [accepted]: '0+1000x60', [failed('RC')]: '0+10x60' },
    fires: [55],
  },
  {
    alert: 'UsherErrorBudgetBurns',
    what: 'five in a thousand, and resets',
    series: {
      [accepted]: '0+1000x60',
      [failed('SC')]: '0+5x60',
      [failed('SD')]: '0+100x60',
    },
    quiet: [55],
  },
  {
    alert: 'UsherErrorBudgetBurns',
    what: 'no connections at all',
    series: { [accepted]: '0x60', [failed('SC')]: '0x60' },
    quiet: [55],
  },
]
