LOADED_AS = __name__
