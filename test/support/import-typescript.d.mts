export function importTypeScript<Module>(url: string): Promise<Module>;
