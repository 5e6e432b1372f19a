import * as v from 'valibot'

/** Of options that are each there or not. */
export type Given<Schemas extends Readonly<Record<string, v.GenericSchema>>> = {
  readonly [Name in keyof Schemas]?: v.InferOutput<Schemas[Name]> | undefined
}

/** One row of the options: what it takes, what the docs say of it, and what they give as an example. */
export const described = <S extends v.GenericSchema>(
  schema: S,
  text: string,
  ...examples: v.InferOutput<S>[]
) => v.pipe(schema, v.description(text), v.examples(examples))
