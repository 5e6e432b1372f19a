const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
const labelText = new RegExp(`^${label}$`)
const subdomainText = new RegExp(`^${label}(\\.${label})*$`)

/** A label of RFC 1123 as Kubernetes takes it: namespaces and port names. */
export const isDnsLabel = (text: string): boolean =>
  text.length <= 63 && labelText.test(text)

/** A subdomain of RFC 1123 as Kubernetes takes it: names of objects. */
export const isDnsSubdomain = (text: string): boolean =>
  text.length <= 253 && subdomainText.test(text)
