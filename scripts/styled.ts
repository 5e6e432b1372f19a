import { format, resolveConfig } from 'prettier'

/** As `npm run format` would write it. */
export const styled = async (text: string, parser: string): Promise<string> =>
  format(text, { ...(await resolveConfig(import.meta.filename)), parser })
