import { readFileSync } from 'node:fs'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'

/** Whether something is as deploy/NAME.schema.json has it; why not is in its `errors`. */
export const publishedSchema = (name: 'output' | 'status'): ValidateFunction => {
  const path = new URL(`../../deploy/${name}.schema.json`, import.meta.url)
  return new Ajv2020().compile(JSON.parse(readFileSync(path, 'utf8')) as object)
}
